package driver

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// EnvDump names the environment variable that names a directory in which PTX and the compiler's logs are kept.
const EnvDump = "FSGEN_DUMP"

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
		warn("%s: %v", EnvDump, err)
		return ""
	}
	return base + ".ptx"
}
