package tiling

import (
	"fmt"
	"regexp"
	"strconv"
)

// Tile is a tile configuration; its text, such as m128n64k64s8c1, names it everywhere.
type Tile struct {
	M       int // vocabulary rows of a CTA: 64 for each consumer warpgroup
	N       int // batch rows
	K       int // hidden columns of one stage
	Stages  int // depth of the ring
	Cluster int // CTAs that share the hidden states by multicast
}

// String returns the tile's name.
func (t Tile) String() string {
	return fmt.Sprintf("m%dn%dk%ds%dc%d", t.M, t.N, t.K, t.Stages, t.Cluster)
}

var tileName = regexp.MustCompile(`^m(\d{1,4})n(\d{1,4})k(\d{1,4})s(\d{1,3})c(\d{1,2})$`)

// ParseTile reads a tile's name.
func ParseTile(s string) (Tile, error) {
	var n [5]int
	if m := tileName.FindStringSubmatch(s); m != nil {
		for i := range n {
			n[i], _ = strconv.Atoi(m[i+1])
		}
	}
	t := Tile{n[0], n[1], n[2], n[3], n[4]}
	if t.String() != s { // leading zeros too: a tile has one name
		return Tile{}, fmt.Errorf("tiling: bad tile %q: want mMnNkKsSTAGEScCLUSTER, as in m128n64k64s8c1", s)
	}
	return t, nil
}
