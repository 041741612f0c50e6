// Returns the slug of a title.
export function slug(title) {
  return (title.toLowerCase().match(/[a-z0-9]+/g) ?? []).join("-");
}
