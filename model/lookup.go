package model

import (
	"fmt"
	"slices"
	"strings"
)

// UnknownModelError is the answer to a name that is no preset.
type UnknownModelError struct {
	Name        string
	Suggestions []string // the nearest presets, nearest first; may be empty
}

// Error is one line with the suggestions.
func (e *UnknownModelError) Error() string {
	msg := fmt.Sprintf("unknown model %q", oneLine(e.Name, 100))
	if len(e.Suggestions) > 0 {
		msg += "; did you mean " + strings.Join(e.Suggestions, " or ") + "?"
	}
	return msg
}

// All lists the presets, always in the same order.
func All() []Preset {
	all := slices.Clone(presets)
	for i := range all {
		all[i].Repos = slices.Clone(all[i].Repos)
	}
	return all
}

// Lookup finds a preset by its name, by the full name of a repository, or by a repository's name without its owner.
// Letter case and the separators "-", "_" and " " do not matter. The error is *UnknownModelError.
func Lookup(name string) (Preset, error) {
	key := fold(name)
	for i, p := range presets {
		if slices.Contains(p.keys(), key) {
			return All()[i], nil
		}
	}
	return Preset{}, &UnknownModelError{Name: name, Suggestions: suggest(key)}
}

// keys are the folded names that find a preset.
func (p Preset) keys() []string {
	keys := []string{fold(p.Name)}
	for _, r := range p.Repos {
		_, base, _ := strings.Cut(r, "/")
		keys = append(keys, fold(r), fold(base))
	}
	return keys
}

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

func fold(name string) string { return separators.Replace(strings.ToLower(strings.TrimSpace(name))) }

// suggest gives up to three presets whose nearest name is within a third of the asked-for one's length in edits, or
// that the asked-for name is a part of.
func suggest(key string) []string {
	if len(key) > 100 {
		return nil // the distance is quadratic, and nothing of that length is near
	}
	type near struct {
		name string
		dist int
	}
	var found []near
	for _, p := range presets {
		best := len(key)/3 + 1
		for _, k := range p.keys() {
			d := editDistance(key, k)
			if len(key) >= 4 && strings.Contains(k, key) {
				d = min(d, len(key)/3)
			}
			best = min(best, d)
		}
		if best <= len(key)/3 {
			found = append(found, near{p.Name, best})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.dist - b.dist })
	var names []string
	for _, n := range found[:min(3, len(found))] {
		names = append(names, n.name)
	}
	return names
}

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			up := row[j+1]
			sub := diag
			if a[i] != b[j] {
				sub++
			}
			diag, row[j+1] = up, min(sub, up+1, row[j]+1)
		}
	}
	return row[len(b)]
}
