package driver

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// JITOptions are what the driver's compiler is told. The zero value is its defaults.
type JITOptions struct {
	// MaxRegisters limits the registers of a thread; 0 leaves it to the compiler and the kernel's own directives.
	MaxRegisters int
	// OptLevel is 1 to 4; 0 means the default, 4.
	OptLevel int
	// LineInfo adds source lines for profilers.
	LineInfo bool
	// Verbose asks for registers and spills in the information log.
	Verbose bool
}

// JIT option numbers (CUDA Driver API, CUjit_option).
const (
	jitMaxRegisters  = 0
	jitInfoLog       = 3
	jitInfoLogBytes  = 4
	jitErrorLog      = 5
	jitErrorLogBytes = 6
	jitOptLevel      = 7
	jitLogVerbose    = 12
	jitLineInfo      = 13
)

// logBytes is the size of each log buffer. The pages are only touched as far as the compiler writes.
const logBytes = 4 << 20

// jitSession is what the compiler is given for one compilation: options, and buffers for its logs. All of it is
// outside the Go heap, where option values, which the driver takes as pointers or integers in one array of void*, do
// not confuse the collector, and where the driver may write to them until the session is closed.
type jitSession struct {
	options   []byte // 16 option numbers of 4 bytes, then 16 values of 8
	info, err []byte
	n         int

	infoLog, errLog string // set by readLogs
}

const jitValues = 64 // where the values begin

func newJITSession(o JITOptions) (*jitSession, error) {
	j := &jitSession{}
	for _, b := range []struct {
		to *[]byte
		n  int
	}{{&j.options, jitValues + 16*8}, {&j.info, logBytes}, {&j.err, logBytes}} {
		block, err := newBlock(b.n)
		if err != nil {
			j.close()
			return nil, err
		}
		*b.to = block
	}
	j.add(jitInfoLog, address(j.info))
	j.add(jitInfoLogBytes, logBytes)
	j.add(jitErrorLog, address(j.err))
	j.add(jitErrorLogBytes, logBytes)
	if o.MaxRegisters > 0 {
		j.add(jitMaxRegisters, uintptr(o.MaxRegisters))
	}
	if o.OptLevel > 0 {
		j.add(jitOptLevel, uintptr(o.OptLevel))
	}
	if o.LineInfo {
		j.add(jitLineInfo, 1)
	}
	if o.Verbose {
		j.add(jitLogVerbose, 1)
	}
	return j, nil
}

func (j *jitSession) add(option uint32, value uintptr) {
	*at[uint32](j.options, 4*j.n) = option
	*at[uintptr](j.options, jitValues+8*j.n) = value
	j.n++
}

// args are the three words by which calls take options.
func (j *jitSession) args() (n, options, values uintptr) {
	return uintptr(j.n), address(j.options), address(j.options) + jitValues
}

// readLogs takes over what the compiler wrote. The driver has replaced the buffer sizes in the options by the lengths
// filled.
func (j *jitSession) readLogs() {
	j.infoLog = logText(j.info, *at[uint32](j.options, jitValues+8))
	j.errLog = logText(j.err, *at[uint32](j.options, jitValues+3*8))
}

// logText cuts a log at its first NUL, or at its stated length if it has none, and says if it is not all there.
func logText(buffer []byte, length uint32) string {
	text := buffer[:min(int(length), len(buffer))]
	cut := len(text) >= logBytes-1
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
		cut = i >= logBytes-1
	}
	s := strings.TrimSpace(string(text))
	if cut {
		s += fmt.Sprintf("\n[the log was cut at %d bytes]", logBytes)
	}
	return s
}

func (j *jitSession) close() {
	for _, b := range [][]byte{j.options, j.info, j.err} {
		if b != nil {
			freeBlock(b)
		}
	}
}

// check refuses what the driver would misread or ignore.
func (o JITOptions) check() error {
	if o.MaxRegisters < 0 || o.MaxRegisters > 255 {
		return fmt.Errorf("driver: JITOptions.MaxRegisters is %d: want 0 to 255", o.MaxRegisters)
	}
	if o.OptLevel < 0 || o.OptLevel > 4 {
		return fmt.Errorf("driver: JITOptions.OptLevel is %d: want 0 (default) to 4", o.OptLevel)
	}
	return nil
}

// checkPTX refuses text that the driver cannot take: it reads up to the first NUL.
func checkPTX(ptx []byte) error {
	switch i := bytes.IndexByte(bytes.TrimRight(ptx, "\x00"), 0); {
	case len(bytes.TrimSpace(ptx)) == 0:
		return fmt.Errorf("driver: the PTX is empty")
	case i >= 0:
		return fmt.Errorf("driver: the PTX has a NUL at byte %d", i)
	}
	return nil
}

// ptxBlock copies PTX outside the Go heap and ends it with a NUL, which the driver looks for.
func ptxBlock(ptx []byte) (block []byte, length int, err error) {
	ptx = bytes.TrimRight(ptx, "\x00")
	if block, err = newBlock(len(ptx) + 1); err != nil {
		return nil, 0, err
	}
	copy(block, ptx)
	return block, len(ptx) + 1, nil
}

var logLine = regexp.MustCompile(`line (\d+)`)

// quoteLines adds to a compiler's log the PTX lines that it names, up to five, since the user may not have the text.
func quoteLines(log string, ptx []byte) string {
	lines := strings.Split(string(ptx), "\n")
	var quotes []string
	seen := map[int]bool{}
	for _, m := range logLine.FindAllStringSubmatch(log, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil || n < 1 || n > len(lines) || seen[n] || len(quotes) == 5 {
			continue
		}
		seen[n] = true
		quotes = append(quotes, fmt.Sprintf("%7d | %s", n, strings.TrimRight(lines[n-1], "\r")))
	}
	return strings.Join(append([]string{log}, quotes...), "\n")
}

// compileError completes the error of a compilation with the compiler's log and the place of the PTX.
func (d *Driver) compileError(err error, errLog string, ptx []byte, path string) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	e.Log, e.PTXPath = quoteLines(errLog, ptx), path
	switch needs, found := ptxVersion(ptx); {
	case e.Code == ErrUnsupportedPTXVersion && found:
		return &PTXVersionError{Driver: d.version, Needs: needs, Err: e}
	case e.Code == ErrJITCompilerNotFound:
		e.Detail = "the driver found no libnvidia-ptxjitcompiler.so.1 beside itself"
	case e.Log == "" && path == "":
		e.Detail = "the compiler gave no reason; set " + EnvDump + " to a directory to keep the PTX"
	}
	return e
}

// cacheFormat counts changes in what CompilePTX returns for one input.
const cacheFormat = 1

// ImageKey names what CompilePTX makes of the PTX on this device: it covers everything that the result depends on,
// the driver's exact release included. It fits internal caches: lower-case letters, digits and '-'.
func (c *Context) ImageKey(ptx []byte, o JITOptions) string {
	h := sha256.New()
	fmt.Fprintf(h, "format %d\ndriver %d %q\ncc %v\noptions %+v\n", cacheFormat, c.dev.drv.version, c.dev.drv.Release(),
		c.dev.cc, o)
	_ = binary.Write(h, binary.LittleEndian, uint64(len(ptx)))
	h.Write(ptx)
	return "cubin-" + hex.EncodeToString(h.Sum(nil))
}
