package rendezvous

import (
	"fmt"
	"os"
	"regexp"
	"time"
)

// Limits of a group.
const (
	MaxWorld = 256
	MaxBlob  = 64 << 10 // bytes that a rank brings, or gives to a gather
	MaxFiles = 16       // descriptors that a rank brings
)

// DefaultTimeout is how long Join waits for the others where the configuration does not say: processes of a job may load for a
// while before they come.
const DefaultTimeout = time.Minute

// Config is what a rank knows before it meets the others.
type Config struct {
	// Group is the name of the group, the same for all its ranks and for nobody else of the user on this host: letters, digits,
	// and ".", "_", "-", at most 64.
	Group string
	// Rank is this process, of World.
	Rank, World int
	// Dir is where rank 0 puts its socket, the same for all ranks: a folder of the user's own that nobody else can write to,
	// made if it is not there. "" is the abstract namespace, which needs no file, but which containers share only if they
	// share the network.
	Dir string
	// Timeout bounds the meeting; 0 is DefaultTimeout.
	Timeout time.Duration
	// Blob and Files are what this rank gives to all others. The files stay the caller's, and may be closed after Join.
	Blob  []byte
	Files []*os.File
}

// ConfigError is a configuration that no group can have.
type ConfigError struct{ Reason string }

func (e *ConfigError) Error() string { return "rendezvous: " + e.Reason }

// NameRule says which names a group can have.
const NameRule = "want 1 to 64 letters, digits, dots, underscores and hyphens"

// CheckName refuses the others, with a *ConfigError.
func CheckName(name string) error {
	if !groupName.MatchString(name) {
		return &ConfigError{fmt.Sprintf("group name %.80q: %s", name, NameRule)}
	}
	return nil
}

var groupName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (c *Config) check() error {
	if err := CheckName(c.Group); err != nil {
		return err
	}
	switch {
	case c.World < 1 || c.World > MaxWorld:
		return &ConfigError{fmt.Sprintf("world size %d: want 1 to %d", c.World, MaxWorld)}
	case c.Rank < 0 || c.Rank >= c.World:
		return &ConfigError{fmt.Sprintf("rank %d: want 0 to %d", c.Rank, c.World-1)}
	case len(c.Blob) > MaxBlob:
		return &ConfigError{fmt.Sprintf("%d bytes from a rank: want at most %d", len(c.Blob), MaxBlob)}
	case len(c.Files) > MaxFiles:
		return &ConfigError{fmt.Sprintf("%d files from a rank: want at most %d", len(c.Files), MaxFiles)}
	case c.Timeout < 0:
		return &ConfigError{fmt.Sprintf("timeout %v", c.Timeout)}
	}
	return nil
}

func (c *Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return DefaultTimeout
	}
	return c.Timeout
}
