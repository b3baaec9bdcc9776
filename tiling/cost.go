package tiling

import (
	"math"

	"github.com/fsgen/fsgen/ir"
)

// Work is what a launch has to do: it tells tiles apart that all compute the same.
type Work struct {
	// Shape is the head's. The zero Shape stands for a usual one.
	Shape ir.Shape
	// Batch is the rows of a launch; less than one counts as one.
	Batch int
	// Packed says that the weights are packed, and not row-major.
	Packed bool
}

// usualShape is a head's where nobody says: that of an 8B model.
var usualShape = ir.Shape{Vocab: 151936, Hidden: 4096}

func (w Work) normalize() Work {
	if w.Shape == (ir.Shape{}) {
		w.Shape = usualShape
	}
	w.Shape.Vocab, w.Shape.Hidden, w.Batch = max(w.Shape.Vocab, 1), max(w.Shape.Hidden, 1), max(w.Batch, 1)
	return w
}

// Cost is what a model expects a launch to take on the architecture's reference card (see charts), in microseconds, as one
// of many that follow each other. The parts are what a multiprocessor would spend on each alone; they overlap, and Total says
// how much. All are whole nanoseconds, lest the last bit of an operation decide between two tiles.
type Cost struct {
	Weights  float64 `json:"weights_us"`  // reading weights from memory, all of them for each column tile
	Products float64 `json:"products_us"` // the tensor cores
	Hidden   float64 `json:"hidden_us"`   // reading hidden states from the L2 cache, all of a column tile's for each tile
	Sampling float64 `json:"sampling_us"` // noise and scores
	Launch   float64 `json:"launch_us"`   // start and end, whatever the work
	Total    float64 `json:"total_us"`
}

// Cost estimates what the plan's kernel takes. It is there to rank tiles; cost_test.go says how well it does.
func (p *Plan) Cost(w Work) Cost {
	w = w.normalize()
	ch, s := charts[p.Arch.Name], p.split(w)
	t, turns, launch := ch.tile(p, s, w.Packed), float64(s.turns), ch.launch
	if p.Tile.Cluster > 1 {
		launch += ch.cluster
	}
	sampling, end := p.schedule(s.turns, t)
	return Cost{Weights: whole(turns * t.weights), Products: whole(turns * t.products), Hidden: whole(turns * t.hidden),
		Sampling: whole(sampling), Launch: whole(launch), Total: whole(launch + t.fill + end)}
}

// whole rounds microseconds to whole nanoseconds.
func whole(us float64) float64 { return math.Round(us*1000) / 1000 }

// split is how a launch's work is cut into tiles, much as templates/shares.go has it: there whole tiles come first, and the last ones
// are lower; here all have the rows that they have on average.
type split struct {
	turns  int     // tiles that a CTA has one after the other
	rows   float64 // weights rows of a tile
	live   float64 // batch rows of a tile that are not there to fill it up
	stages float64 // of a tile
}

func (p *Plan) split(w Work) split {
	t := p.Tile
	columns, across := ceilDiv(w.Batch, t.Width()), t.Cluster // weights tiles of a cluster
	if t.Split {
		across = 1
	}
	clusters, groups := max(p.Arch.Multiprocessors/t.Cluster, 1), ceilDiv(w.Shape.Vocab, t.M*across)
	s := split{turns: ceilDiv(groups*columns, clusters), rows: float64(t.M), stages: math.Ceil(float64(w.Shape.Hidden) / stageK)}
	if columns == 1 && s.stages >= float64(t.Stages) { // the last turns' are even
		s.rows = min(s.rows, float64(w.Shape.Vocab)/float64(s.turns*clusters*across))
	}
	s.live = math.Ceil(float64(w.Batch) / float64(columns))
	if t.Split {
		s.live /= float64(t.Cluster)
	}
	s.live = min(s.live, float64(t.N))
	return s
}

// times are what a tile takes, in microseconds.
type times struct {
	weights, products, hidden float64 // each alone
	stream                    float64 // all three, if nothing else holds them up
	ahead                     float64 // of that, what the ring may be ahead
	sampling                  float64 // once rows have a best score worth having
	first                     float64 // sampling more in the first tile, whose rows have none
	fill                      float64 // of the whole launch: rows of the first stages that no tile has
}

// schedule follows a CTA through its tiles, and returns the time that it samples and when its last tile is done. The copies
// run as far ahead as the ring is deep. Products begin when the tensor core and a set of accumulators are free, sampling when
// products are done and a team of warps is free: warpgroups that take turns, and tensor memory, have two sets, and the former
// two teams. Past longRun tiles the rest go on as those before.
func (p *Plan) schedule(turns int, t times) (sampling, end float64) {
	sets, teams := 1, p.Pipeline.Samplers/p.Pipeline.Team
	if p.Tile.PingPong || p.Tensor.Buffers > 1 {
		sets = 2
	}
	var loaded, multiplied float64
	done := [2]float64{} // of the last two tiles, the older one first
	counted := min(turns, longRun)
	for i := range counted {
		start := max(multiplied, done[2-sets])
		loaded = max(loaded+t.stream, start+max(t.stream-t.ahead, 0))
		multiplied = max(start+t.products, loaded)
		own := t.sampling + t.first/square(float64(max(i+2-sets, 1)))
		sampling += own
		done = [2]float64{done[1], max(multiplied, done[2-teams]) + own}
	}
	scale := float64(turns) / float64(counted)
	return sampling * scale, done[1] * scale
}

// longRun is the tiles after which a CTA does nothing new.
const longRun = 64

func square(x float64) float64 { return x * x }

// ceilDiv is a over b, rounded up.
func ceilDiv(a, b int) int { return (a + b - 1) / b }
