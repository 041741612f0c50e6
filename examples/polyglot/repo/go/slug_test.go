package slug

import (
	"os"
	"strings"
	"testing"
)

func TestSpecification(t *testing.T) {
	spec, err := os.ReadFile("../spec/slugs.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSuffix(string(spec), "\n"), "\n") {
		title, expected, _ := strings.Cut(line, "\t")
		if found := Of(title); found != expected {
			t.Errorf("Of(%q) is %q, expected %q", title, found, expected)
		}
	}
}
