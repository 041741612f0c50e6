// Package slug makes slugs of titles.
package slug

import "strings"

// Of returns the slug of a title.
func Of(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	return strings.Join(words, "-")
}
