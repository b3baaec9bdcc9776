package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sampler"
)

// ranks says how the vocabulary is shared.
type ranks struct {
	n, own          int
	name, transport string
	given           func(string) bool
}

func (r *ranks) flags(f *pflag.FlagSet, processes bool) {
	r.given = f.Changed
	f.IntVar(&r.n, "tp", 0, "share the vocabulary among that many ranks: GPUs in turn, or parts of the one that --device names")
	f.StringVar(&r.transport, "tp-transport", "", "how ranks exchange what they found: peer, nccl or host (the first that works if absent; needs --tp)")
	if processes {
		f.IntVar(&r.own, "tp-rank", 0, "be this one of the ranks, the others being processes of their own (needs --tp-group)")
		f.StringVar(&r.name, "tp-group", "", "name that the processes of the ranks find each other by: letters, digits, dots, underscores, hyphens (needs --tp, --tp-rank, and GPUs)")
	}
}

// checkRanks holds a number of ranks to what there can be.
func checkRanks(n int) error {
	if n < 1 || n > manifest.MaxRanks {
		return usagef("--tp is %d: want 1 to %d", n, manifest.MaxRanks)
	}
	return nil
}

func (r *ranks) check() error {
	if r.given("tp") {
		if err := checkRanks(r.n); err != nil {
			return err
		}
	}
	switch {
	case !r.given("tp") && r.given("tp-transport"):
		return usagef("--tp-transport needs --tp")
	case !r.given("tp") && r.given("tp-group"):
		return usagef("--tp-group needs --tp")
	case r.given("tp-rank") && r.name == "":
		return usagef("--tp-rank needs --tp-group: the name that its ranks share")
	case r.name != "" && !r.given("tp-rank"):
		return usagef("--tp-group needs --tp-rank: which of the ranks this is")
	case r.given("tp-rank") && (r.own < 0 || r.own >= r.n):
		return usagef("--tp-rank is %d: want 0 to %d", r.own, r.n-1)
	}
	if err := sampler.CheckTransport(sampler.Transport(r.transport)); err != nil || r.name == "" {
		return groupError(err)
	}
	return groupError(sampler.CheckGroupName(r.name))
}

// open opens the group on a device, and says how its ranks exchange what they found.
func (r *ranks) open(ctx context.Context, e *env, device string) (*sampler.Group, error) {
	cfg := sampler.GroupConfig{Transport: sampler.Transport(r.transport)}
	devices, fallback, err := sampler.GroupDevices(device, r.n)
	if err != nil {
		return nil, groupError(err)
	}
	if fallback != nil && r.name != "" {
		return nil, fallback // ranks in processes of their own need GPUs
	}
	if fallback != nil {
		e.note("device cpu: %s", trimmed(fallback))
	}
	if cfg.Devices = devices; r.name != "" {
		cfg.World, cfg.Rank, cfg.Name, cfg.Dir = r.n, r.own, r.name, os.Getenv("FSGEN_GROUP_DIR")
		if r.own >= 0 && r.own < r.n {
			cfg.Devices = devices[r.own : r.own+1]
		}
	}
	met := r.waiting(e)
	g, err := sampler.OpenGroup(ctx, cfg)
	met()
	if err != nil {
		return nil, groupError(err)
	}
	info := g.Info()
	count := "1 rank"
	if info.World > 1 {
		count = strconv.Itoa(info.World) + " ranks"
	}
	e.note("%s on %s: transport %s (%s)", count, runs(info.Devices), info.Transport, info.Why)
	return g, nil
}

// rankPatience is how long a rank waits for the others before it says so.
const rankPatience = 3 * time.Second

// waiting says after a while that the ranks in other processes have not come, until what it returns is called.
func (r *ranks) waiting(e *env) (met func()) {
	if r.name == "" {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stop:
		case <-time.After(rankPatience):
			fmt.Fprintf(e.stderr, "fsgen: rank %d of %d waits for the others of group %s, a minute at most\n", r.own, r.n, r.name)
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// groupFlags are the flags that fields of a group come from; the others are the ranks'.
var groupFlags = map[string]string{"group transport": "--tp-transport", "group rank": "--tp-rank", "group name": "--tp-group", "group processes": "--device", "group devices": "--device", "device": "--device"}

// groupError makes usage errors of what flags were wrong.
func groupError(err error) error {
	var bad *sampler.InputError
	if !errors.As(err, &bad) {
		return err
	}
	flag := cmp.Or(groupFlags[bad.Field], "--tp")
	if bad.Value == nil {
		return usagef("%s: %s", flag, reason(err))
	}
	return usagef("%s is %v: %s", flag, bad.Value, bad.Rule)
}

// runs names devices, and how often one comes.
func runs(devices []string) (text string) {
	for i := 0; i < len(devices); {
		n := 1
		for i+n < len(devices) && devices[i+n] == devices[i] {
			n++
		}
		if text != "" {
			text += ", "
		}
		if text += devices[i]; n > 1 {
			text += " (" + strconv.Itoa(n) + ")"
		}
		i += n
	}
	return text
}
