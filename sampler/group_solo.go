package sampler

import (
	"context"

	"github.com/fsgen/fsgen/ir"
)

// solo is a group of one rank: a device.
type solo struct{ dev *Device }

func newSolo(cfg GroupConfig) (groupBackend, error) {
	dev, err := Open(cfg.Devices[0])
	if err != nil {
		return nil, err
	}
	return &solo{dev}, nil
}

func (s *solo) info() GroupInfo {
	return GroupInfo{World: 1, Devices: []string{s.dev.Info().Name}, Arch: s.dev.Info().Arch, Transport: TransportNone, Why: "one rank has nothing to exchange"}
}

func (s *solo) healthy() error { return s.dev.Healthy() }
func (s *solo) close() error   { return s.dev.Close() }

func (s *solo) loadHead(ctx context.Context, w Weights, _ []ir.Span) (groupHeadBackend, error) {
	h, err := s.dev.LoadHead(ctx, w)
	if err != nil {
		return nil, err
	}
	return &soloHead{h}, nil
}

type soloHead struct{ head *Head }

func (h *soloHead) close() error { return h.head.Close() }

func (h *soloHead) plan(ctx context.Context, spec Spec) (groupPlanBackend, error) {
	p, err := h.head.b.plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &soloPlan{p}, nil
}

type soloPlan struct{ planBackend }

func (p *soloPlan) sample(ctx context.Context, b *batch) ([]*Result, error) {
	r, err := p.planBackend.sample(ctx, b)
	return []*Result{r}, err
}
