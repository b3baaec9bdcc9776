package verify

import (
	"context"

	"github.com/fsgen/fsgen/sampler"
)

// target is what the suites need of a device: small, so that tests can put faults in between.
type target interface {
	Info() sampler.Info
	Healthy() error
	load(ctx context.Context, w sampler.Weights) (head, error)
}

type head interface {
	plan(ctx context.Context, spec sampler.Spec) (plan, error)
	Close() error
}

type plan interface {
	Sample(ctx context.Context, hidden []uint16, rows sampler.Rows) (*sampler.Result, error)
	Close() error
}

// device is a sampler.Device as a target.
type device struct{ *sampler.Device }

func (d device) load(ctx context.Context, w sampler.Weights) (head, error) {
	h, err := d.LoadHead(ctx, w)
	if err != nil {
		return nil, err
	}
	return deviceHead{h}, nil
}

// deviceGroup is a sampler.Group as a target.
type deviceGroup struct{ *sampler.Group }

func (g deviceGroup) Info() sampler.Info {
	i := g.Group.Info()
	return sampler.Info{Name: i.Devices[0], Arch: i.Arch}
}

func (g deviceGroup) load(ctx context.Context, w sampler.Weights) (head, error) {
	h, err := g.LoadHead(ctx, w, nil)
	if err != nil {
		return nil, err
	}
	return groupHead{h}, nil
}

type groupHead struct{ *sampler.GroupHead }

func (h groupHead) plan(ctx context.Context, spec sampler.Spec) (plan, error) {
	p, err := h.Plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	return p, nil
}

type deviceHead struct{ *sampler.Head }

func (h deviceHead) plan(ctx context.Context, spec sampler.Spec) (plan, error) {
	p, err := h.Plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	return p, nil
}
