package driver

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// EnvDump names the environment variable that names a directory in which PTX that the driver is given and the compiler's logs are
// kept. Simulators give it nothing.
const EnvDump = "FSGEN_DUMP"

// undumped are the directories that could not be written to: each is said once, not for every kernel.
var undumped sync.Map

// dump keeps PTX and its logs, if the user asked for that, and returns where the PTX is.
func dump(ptx []byte, info, errs string) string {
	dir := os.Getenv(EnvDump)
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256(ptx)
	base := filepath.Join(dir, fmt.Sprintf("%x", sum[:8]))
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		err = os.WriteFile(base+".ptx", ptx, 0o666)
	}
	if err == nil && info+errs != "" {
		err = os.WriteFile(base+".log", []byte(info+"\n"+errs+"\n"), 0o666)
	}
	if err != nil {
		if _, said := undumped.LoadOrStore(dir, true); !said {
			warn("%s: %v", EnvDump, err)
		}
		return ""
	}
	return base + ".ptx"
}
