package driver

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/fsgen/fsgen/arch"
)

// Version is the CUDA version that a driver supports, as cuDriverGetVersion reports it: 12040 is 12.4.
type Version int

// Major returns 12 of 12.4.
func (v Version) Major() int { return int(v) / 1000 }

// Minor returns 4 of 12.4.
func (v Version) Minor() int { return int(v) % 1000 / 10 }

// String returns the version as "12.4".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }

// ptxReleases pairs the PTX ISA versions with the CUDA version that brought them (PTX ISA, "Release Notes") and the
// driver branch that first had it (CUDA Toolkit Release Notes, table "CUDA Toolkit and Corresponding Driver
// Versions"). Oldest first.
var ptxReleases = []struct {
	ptx    arch.Version
	cuda   Version
	branch int
}{
	{arch.V(7, 0), 11000, 450}, {arch.V(7, 1), 11010, 455}, {arch.V(7, 2), 11020, 460}, {arch.V(7, 3), 11030, 465},
	{arch.V(7, 4), 11040, 470}, {arch.V(7, 5), 11050, 495}, {arch.V(7, 6), 11060, 510}, {arch.V(7, 7), 11070, 515},
	{arch.V(7, 8), 11080, 520}, {arch.V(8, 0), 12000, 525}, {arch.V(8, 1), 12010, 530}, {arch.V(8, 2), 12020, 535},
	{arch.V(8, 3), 12030, 545}, {arch.V(8, 4), 12040, 550}, {arch.V(8, 5), 12050, 555}, {arch.V(8, 6), 12070, 565},
	{arch.V(8, 7), 12080, 570}, {arch.V(8, 8), 12090, 575}, {arch.V(9, 0), 13000, 580}, {arch.V(9, 1), 13010, 590},
}

// PTX returns the newest PTX ISA version that the driver is known to compile. A driver newer than this package may
// take newer ones; one older than CUDA 11 gives the zero version.
func (v Version) PTX() arch.Version {
	var newest arch.Version
	for _, r := range ptxReleases {
		if r.cuda <= v {
			newest = r.ptx
		}
	}
	return newest
}

// PTXVersionError says that PTX is of a version that the driver's compiler does not know.
type PTXVersionError struct {
	// Driver is what the driver supports.
	Driver Version
	// Needs is the .version of the PTX.
	Needs arch.Version
	// Err is the driver's error; errors.Is finds ErrUnsupportedPTXVersion.
	Err *Error
}

func (e *PTXVersionError) Error() string {
	return fmt.Sprintf("driver: the driver (CUDA %v) supports PTX up to %v; the kernel needs PTX %v: %s (%v)",
		e.Driver, e.Driver.PTX(), e.Needs, e.advice(), e.Err)
}

func (e *PTXVersionError) advice() string {
	for _, r := range ptxReleases {
		if !r.ptx.Less(e.Needs) {
			return fmt.Sprintf("update to a driver for CUDA %v or later (R%d or later)", r.cuda, r.branch)
		}
	}
	return "update the NVIDIA driver"
}

// Unwrap returns the driver's error.
func (e *PTXVersionError) Unwrap() error { return e.Err }

var ptxVersionLine = regexp.MustCompile(`(?m)^\s*\.version\s+(\d+\.\d+)`)

// ptxVersion reads the .version directive of PTX text.
func ptxVersion(ptx []byte) (arch.Version, bool) {
	m := ptxVersionLine.FindSubmatch(ptx)
	if m == nil {
		return arch.Version{}, false
	}
	major, minor, _ := strings.Cut(string(m[1]), ".")
	var v arch.Version
	if _, err := fmt.Sscan(major, &v.Major); err != nil {
		return v, false
	}
	_, err := fmt.Sscan(minor, &v.Minor)
	return v, err == nil
}

// kernelModuleVersion returns the exact release of the installed driver, such as "580.95.05", or "" where the system
// does not say. Two releases of one CUDA version may hold different compilers.
func kernelModuleVersion() string {
	b, err := os.ReadFile("/sys/module/nvidia/version")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
