package tiling

import (
	"fmt"
	"regexp"
	"strconv"
)

// Tile is a tile configuration; its text, such as m128n64k64s8c1, names it everywhere.
type Tile struct {
	M       int // vocabulary rows of a CTA: 64 for each consumer warpgroup, or for each product of those that take turns
	N       int // batch rows
	K       int // hidden columns of one stage
	Stages  int // depth of the ring
	Cluster int // CTAs that share the hidden states by multicast, or split the batch
	// Split has the CTAs of a cluster take N batch rows each, of the same weights rows, which they share by multicast.
	Split bool
	// PingPong has two warpgroups take whole tiles in turns: one samples while the other multiplies.
	PingPong bool
}

// Width is the batch rows of an item: of one CTA, or of a cluster that splits them.
func (t Tile) Width() int {
	if t.Split {
		return t.N * t.Cluster
	}
	return t.N
}

// String returns the tile's name.
func (t Tile) String() string {
	name := fmt.Sprintf("m%dn%dk%ds%dc%d", t.M, t.N, t.K, t.Stages, t.Cluster)
	if t.Split {
		name += "b"
	}
	if t.PingPong {
		name += "p"
	}
	return name
}

var tileName = regexp.MustCompile(`^m(\d{1,9})n(\d{1,9})k(\d{1,9})s(\d{1,9})c(\d{1,9})(b?)(p?)$`)

// ParseTile reads a tile's name.
func ParseTile(s string) (Tile, error) {
	var n [5]int
	var split, pingPong bool
	if m := tileName.FindStringSubmatch(s); m != nil {
		for i := range n {
			n[i], _ = strconv.Atoi(m[i+1])
		}
		split, pingPong = m[6] != "", m[7] != ""
	}
	t := Tile{n[0], n[1], n[2], n[3], n[4], split, pingPong}
	if t.String() != s || t == (Tile{}) { // leading zeros too: a tile has one name
		return Tile{}, fmt.Errorf("tiling: bad tile %q: want mMnNkKsSTAGEScCLUSTER, as in m128n64k64s8c1, behind it b if the cluster splits the batch and p for ping-pong", s)
	}
	return t, nil
}
