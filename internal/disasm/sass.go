package disasm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Program is the code of a cubin, in the order of the text.
type Program struct {
	Instrs []Instr
	labels map[string]int // the index of the instruction that a label stands before
}

// Instr is one instruction.
type Instr struct {
	Addr      int
	Predicate string // "@!P0"; empty for none
	Opcode    string // with modifiers: "SYNCS.PHASECHK.TRANS64.TRYWAIT"
	Operands  string
}

// String writes the instruction as nvdisasm does.
func (x Instr) String() string {
	return strings.Join(strings.Fields(fmt.Sprintf("/*%04x*/ %s %s %s", x.Addr, x.Predicate, x.Opcode, x.Operands)), " ")
}

// Is reports whether the opcode begins with a mnemonic and its modifiers, whole ones: HGMMA is no HGMMA2.
func (x Instr) Is(mnemonic string) bool {
	rest, ok := strings.CutPrefix(x.Opcode, mnemonic)
	return ok && (rest == "" || rest[0] == '.')
}

var (
	instrLine = regexp.MustCompile(`^\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+)?\s*([A-Z][A-Z0-9_.a-z]*)\s*(.*?)\s*;`)
	labelLine = regexp.MustCompile(`^([.$A-Za-z_][\w.$]*):\s*$`)
	target    = regexp.MustCompile("`\\(([^)]+)\\)")
	targets   = regexp.MustCompile(`BRANCH_TARGETS ([^"]*)"`)
)

// Parse reads the text of nvdisasm --print-code: labels and instructions; directives are passed over.
func Parse(text string) (*Program, error) {
	p := &Program{labels: map[string]int{}}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if m := labelLine.FindStringSubmatch(line); m != nil {
			p.labels[m[1]] = len(p.Instrs)
		} else if m := instrLine.FindStringSubmatch(line); m != nil {
			addr, err := strconv.ParseInt(m[1], 16, 32)
			if err != nil {
				return nil, fmt.Errorf("disasm: %q: %w", line, err)
			}
			p.Instrs = append(p.Instrs, Instr{int(addr), m[2], m[3], strings.TrimSpace(m[4])})
		} else if strings.HasPrefix(strings.TrimSpace(line), "/*") {
			return nil, fmt.Errorf("disasm: %q is no instruction", line)
		}
	}
	if len(p.Instrs) == 0 {
		return nil, fmt.Errorf("disasm: there are no instructions")
	}
	return p, nil
}

// Indices lists the instructions of a mnemonic.
func (p *Program) Indices(mnemonic string) (out []int) {
	for i, x := range p.Instrs {
		if x.Is(mnemonic) {
			out = append(out, i)
		}
	}
	return out
}

// successors lists the instructions that may come after instruction i in its own function: a call comes back.
func (p *Program) successors(i int) (next []int, err error) {
	x := p.Instrs[i]
	names, falls := x.branches()
	if (x.Is("BRA") || x.Is("BRX")) && len(names) == 0 {
		return nil, fmt.Errorf("disasm: %s names no target", x)
	}
	for _, name := range names {
		at, ok := p.labels[name]
		if !ok {
			return nil, fmt.Errorf("disasm: %s: there is no label %s", x, name)
		}
		next = append(next, at)
	}
	if falls && i+1 < len(p.Instrs) {
		next = append(next, i+1)
	}
	return next, nil
}

// branches are the labels that an instruction may go to, and whether it may go on to the next instruction.
func (x Instr) branches() (labels []string, falls bool) {
	switch {
	case x.Is("BRX"):
		if m := targets.FindStringSubmatch(x.Operands); m != nil {
			labels = strings.Split(m[1], ",")
		}
	case x.Is("BRA"):
		if m := target.FindStringSubmatch(x.Operands); m != nil {
			labels = m[1:]
		}
		falls = !strings.HasPrefix(x.Operands, "`") // BRA.U UP0, BRA.DIV UR4: conditional by an operand
	case x.Is("EXIT"), x.Is("RET"):
	default:
		return nil, true
	}
	return labels, falls || x.Predicate != ""
}
