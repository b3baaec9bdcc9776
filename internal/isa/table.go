package isa

import "fmt"

// Table lists every row, in the order of the manual's chapters.
var Table = number(
	integerRows(), floatRows(), halfRows(), compareRows(), logicRows(), moveRows(), convertRows(),
	memoryRows(), atomicRows(), asyncCopyRows(), bulkCopyRows(), flowRows(), barrierRows(), warpRows(), mbarrierRows(),
	fenceRows(), matrixRows(), wgmmaRows(), tcgen05Rows(), miscRows(),
)

var (
	byOp = map[string][]*Row{}
	byID = map[string]*Row{}
)

// ByOp returns the rows whose mnemonic begins with the word before the first dot.
func ByOp(word string) []*Row { return byOp[word] }

// ByID returns the row with the given ID; it panics if there is none.
func ByID(id string) *Row {
	r := byID[id]
	if r == nil {
		panic("BUG: isa: no row " + id)
	}
	return r
}

// number joins the chapters, names the rows and builds the indices.
func number(chapters ...[]Row) []*Row {
	var out []*Row
	for _, rows := range chapters {
		for i := range rows {
			r := &rows[i]
			if len(r.Slots) > MaxSlots {
				panic("BUG: isa: too many slots in " + r.Op)
			}
			r.ID = r.Constructors()[0].Name
			if byID[r.ID] != nil {
				panic(fmt.Sprintf("BUG: isa: two rows are named %s", r.ID))
			}
			byID[r.ID] = r
			word := firstWord(r.Op)
			byOp[word] = append(byOp[word], r)
			out = append(out, r)
		}
	}
	return out
}

func firstWord(op string) string {
	for i := range len(op) {
		if op[i] == '.' {
			return op[:i]
		}
	}
	return op
}

// Constructor is one function that builds instructions of a row: the choices of its named slots are made.
type Constructor struct {
	Name string
	Form Form
}

// Constructors lists the functions that build instructions of the row: one for each combination of its named slots' visible
// alternatives.
func (r *Row) Constructors() []Constructor {
	out := []Constructor{{r.Go, Form{Row: r}}}
	for i, slot := range r.Slots {
		if slot.Mode != Named {
			continue
		}
		var next []Constructor
		for _, c := range out {
			for j, alt := range slot.Alts {
				if alt.Hidden {
					continue
				}
				d := c
				d.Name += alt.GoID
				d.Form.Sel[i] = uint8(j + 1)
				next = append(next, d)
			}
		}
		out = next
	}
	return out
}
