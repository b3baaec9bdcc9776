package bench

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

func TestRanksReport(t *testing.T) {
	r := RanksReport{Schema: 1, Devices: []string{"cuda:0", "cuda:1"}, Transport: "peer", Shape: ir.Shape{Vocab: 1000, Hidden: 64},
		Times: []RanksTime{{Batch: 1, One: 200, Shard: 95, Ranks: 125}, {Batch: 64, One: 210, Ranks: 105}}}
	var text, data bytes.Buffer
	require.NoError(t, r.WriteTable(&text))
	require.Equal(t, `V=1000 D=64, 2 ranks, transport peer
 batch   one GPU us     shard us     ranks us  speedup of ideal
     1        200.0         95.0        125.0     1.60    0.800
    64        210.0            -        105.0     2.00    1.000
`, text.String())
	require.NoError(t, r.WriteJSON(&data))
	require.Contains(t, data.String(), `{"batch":1,"one_us":200,"shard_us":95,"ranks_us":125},{"batch":64,"one_us":210,"ranks_us":105}`)
}
