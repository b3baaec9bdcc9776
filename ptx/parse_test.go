package ptx

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
)

// roundTrip prints a module, reads it back, and reports any difference.
func roundTrip(t *testing.T, m *Module) {
	t.Helper()
	text := m.String()
	back, err := Parse(text)
	if err != nil {
		t.Fatalf("the printed module does not parse: %v\n%s", err, clip(text))
	}
	if d := Diff(m, back); d != "" {
		t.Fatalf("reading back the printed module gives another: %s", d)
	}
	if again := back.String(); again != text {
		t.Fatalf("printing twice differs:\n%s\n%s", clip(text), clip(again))
	}
}

func clip(s string) string {
	if len(s) > 3000 {
		return s[:3000] + "..."
	}
	return s
}

// TestEveryFormReadsBack prints every form, with registers, constants and optional operands, and reads it back as the same row.
func TestEveryFormReadsBack(t *testing.T) {
	b := newBench(arch.Target{SM: 100, Variant: 'a'})
	for i, form := range allForms() {
		if !form.Complete() {
			continue
		}
		for _, in := range b.variants(form) {
			if i%2 == 0 {
				in.Guard, in.Negate = b.regs[isa.ClassPred][0], i%4 == 0
			}
			in.Note = form.Row.ID
			b.f.Body = append(b.f.Body, in)
		}
	}
	b.f.Place(b.after)
	b.f.Ret()
	t.Logf("%d instructions", len(b.f.Instrs()))
	roundTrip(t, b.m)
}

// TestRead parses texts in other spellings than the printer's; the .out file beside each holds what the printer makes of it.
func TestRead(t *testing.T) {
	files, _ := filepath.Glob("testdata/read/*.ptx")
	if len(files) == 0 {
		t.Fatal("no testdata")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := Verify(m); err != nil {
				t.Fatal(err)
			}
			out := strings.TrimSuffix(file, ".ptx") + ".out"
			if os.Getenv("FSGEN_UPDATE") == "1" {
				if err := os.WriteFile(out, []byte(m.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if m.String() != string(want) {
				t.Errorf("got\n%s\nwant\n%s\n(FSGEN_UPDATE=1 writes it)", m, want)
			}
			roundTrip(t, m)
		})
	}
}

// TestBad reads broken modules. The first line of each file says how the report of Parse or Verify begins:
// // want: FAULT POSITION TEXT.
func TestBad(t *testing.T) {
	files, _ := filepath.Glob("testdata/bad/*.ptx")
	if len(files) == 0 {
		t.Fatal("no testdata")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".ptx"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(text), "\n")
			want, ok := strings.CutPrefix(first, "// want: ")
			if !ok {
				t.Fatalf("no expectation in %s", file)
			}
			m, err := Parse(string(text))
			if err == nil {
				err = Verify(m)
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an error with %q", err, want)
			}
			got := e.Fault.String() + " " + e.Pos + " " + e.Reason
			if !strings.HasPrefix(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// TestHostile reads texts that try to cost much.
func TestHostile(t *testing.T) {
	head := ".version 8.0\n.target sm_90a\n.visible .entry k()\n{\n"
	for name, text := range map[string]string{
		"functions": ".version 8.0\n.target sm_90a\n" + strings.Repeat(".global .u32 a;\n", 1<<16),
		"registers": head + ".reg .b32 %r<4000000000>;",
		"many":      head + strings.Repeat(".reg .b32 %r<60000>;\n", 10),
		"nesting":   head + strings.Repeat("{", 1<<20),
		"vectors":   head + "mov.b64 %x, " + strings.Repeat("{", 1<<20),
		"elements":  head + "mov.b64 %x, {" + strings.Repeat("1,", 1<<20),
		"operands":  head + "add.s32 " + strings.Repeat("1,", 1<<20),
		"modifiers": head + "add" + strings.Repeat(".rn", 1<<20) + " %x;",
		"spread":    head + "add" + strings.Repeat(" .rn", 1<<20) + " %x;",
		"name":      head + ".reg .b32 %" + strings.Repeat("a", 1<<20) + ";",
		"comment":   head + "/*" + strings.Repeat("*", 1<<20),
		"string":    head + ".pragma \"" + strings.Repeat("a", 1<<20),
	} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
