package sampler

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/tiling"
)

// The ranks of a group have their kernels of the same tiles, which rank 0 chooses for all: by what was measured on its GPU of a plain
// kernel of the largest shard's shape, on as many multiprocessors as it has to itself. What ranks exchange takes as long whatever the tile.

// ShardShape is the shape that the tiles of ranks are chosen by: that of the largest shard, with the rows ahead of it that its tiles have.
func ShardShape(shape ir.Shape, spans []ir.Span) ir.Shape {
	work := ir.Shape{Vocab: 1, Hidden: shape.Hidden}
	for i := range spans {
		work.Vocab = max(work.Vocab, workOf(shape, &spans[i]).Vocab)
	}
	return work
}

// rankTiles is what rank 0 has chosen: a candidate for each bucket, of an architecture.
type rankTiles struct {
	Arch  string   `json:"arch"`
	Tiles []string `json:"tiles"` // autotune.Candidate
}

// chooseForRanks is rank 0's choice; nil where the plan's tile is fixed. t looks up what was measured, nil for nothing.
func (s Spec) chooseForRanks(a arch.Arch, work ir.Shape, layout Layout, t *tuner) (*rankTiles, error) {
	if s.Tile != (tiling.Tile{}) || s.Artifact != nil {
		return nil, nil
	}
	out := &rankTiles{Arch: a.Name}
	own, plain := s.request(a, work, layout, tiling.Tile{}), s
	plain.shard = ir.Whole
	r := plain.request(a, work, layout, tiling.Tile{})
	source, gpu := autotune.Source{}, autotune.GPU{}
	if t != nil && !s.untuned() {
		source, gpu = autotune.Source{Store: t.store, Table: t.table()}, t.gpu
	}
	for _, r.Batch = range tiling.Widths(a, s.MaxBatch) {
		c, _, err := source.Find(autotune.NewKey(gpu, string(layout), r), r)
		if err == nil {
			_, err = tiling.NewPlan(a, c.Tile, own.Computation)
		}
		if err != nil { // a tile that the whole vocabulary takes and a shard does not
			own.Batch = r.Batch
			if c, _, err = (autotune.Source{}).Find(autotune.Key{}, own); err != nil {
				return nil, err
			}
		}
		out.Tiles = append(out.Tiles, c.String())
	}
	return out, nil
}

// part is the tuner of a rank that shares its GPU with others of its group.
func (t *tuner) part(share int) *tuner {
	if t == nil || share < 2 {
		return t
	}
	own := *t
	own.gpu.Multiprocessors = max(own.gpu.Multiprocessors/share, 1)
	return &own
}

// buckets emits the kernels of the tiles for a request without one.
func (c *rankTiles) buckets(r gen.Request, widths []int) (out []bucket, err error) {
	if len(c.Tiles) != len(widths) {
		return nil, fmt.Errorf("sampler: rank 0 chose %d tiles for a plan that has %d here: ranks must be given the same spec", len(c.Tiles), len(widths))
	}
	for i, n := range widths {
		x, err := autotune.ParseCandidate(c.Tiles[i])
		if err != nil {
			return nil, err
		}
		r.Batch, r.Tile = n, x.Tile
		k, err := gen.Emit(r)
		if err != nil {
			return nil, err
		}
		out = append(out, bucket{n, autotune.Choice{Artifact: k, CTAs: x.CTAs}})
	}
	return out, nil
}

// encode and decodeTiles carry a choice between processes.
func (c *rankTiles) encode() ([]byte, error) { return json.Marshal(c) }

func decodeTiles(data []byte) (c *rankTiles, err error) {
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, errors.New("sampler: what rank 0 chose for all is no list of tiles: ranks must be of the same fsgen")
	}
	return c, nil
}
