// Package layering holds the walls between the packages of fsgen: layers.txt says who may import whom, and the package's
// tests hold it against the code. Change the table on purpose and say why in RATIONALE.md.
package layering
