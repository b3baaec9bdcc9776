package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// A shard is a run of ids, of which the weights have a row each. Its first id may be any. But a block of the noise is 16 ids that
// begin at a multiple of 16, and a word of a mask 32, and a warp's rows are one of these. So tiles begin at the multiple of 32 at
// or below the first id: the rows ahead of it, the lead, are dealt out with the others and count no more than padding does.

// shardParams are the parameters of a shard.
type shardParams struct {
	start, count        ptx.Param
	records, recordRows ptx.Param // of ir.ShardRecords
	peers               ptx.Param // of ir.ShardExchange
}

// sharded reports whether the kernel has a part of the vocabulary.
func (k *skeleton) sharded() bool { return k.c.Shard != ir.Whole }

// rowsOf is the scalar that bounds the rows of the weights.
func rowsOf(c ir.Computation) string {
	if c.Shard != ir.Whole {
		return ParamShardCount
	}
	return ParamVocab
}

func (s *params) addShard(c ir.Computation, o Options) {
	if c.Shard == ir.Whole {
		return
	}
	s.addSpan(c)
	if c.Shard == ir.ShardExchange && !gathers(c) && !o.Ranks {
		s.shard.peers = s.pointer(ParamPeers, "u8", "table of the ranks", "state")
	}
}

// addSpan declares which ids a shard has.
func (s *params) addSpan(c ir.Computation) {
	if c.Shard != ir.Whole {
		s.shard.start, s.shard.count = s.scalar(ParamShardStart), s.scalar(ParamShardCount)
	}
}

// shardStart is the first id, shardEnd the one past the last, and shardBase that of the first row dealt out. They are made of parameters
// where they are used: samplers have no registers to keep them in.
func (k *skeleton) shardStart() ptx.B32 { return loadU32(k.f, k.sig.shard.start, "shard_start") }

func (k *skeleton) shardEnd() ptx.B32 {
	end := k.f.B32("shard_end")
	k.f.AddU32(end, k.shardStart(), loadU32(k.f, k.sig.shard.count, "shard_count"))
	return end
}

func (k *skeleton) shardBase() ptx.B32 {
	base := k.f.B32("shard_base")
	k.f.AndB32(base, k.shardStart(), ptx.Imm(-maskWord))
	return base
}

// shardLead is the rows dealt out ahead of the first id's.
func (k *skeleton) shardLead() ptx.B32 {
	lead := k.f.B32("shard_lead")
	k.f.AndB32(lead, k.shardStart(), ptx.Imm(maskWord-1))
	return lead
}

// dealShard counts the rows that are dealt out. Those of a shard of no ids are none.
func (k *skeleton) dealShard() {
	f := k.f
	count, none := loadU32(f, k.sig.shard.count, "shard_count"), f.Pred("no_ids")
	k.dealt = f.B32("rows_dealt")
	f.AddU32(k.dealt, count, k.shardLead())
	f.SetpU32(ptx.EQ, none, count, ptx.Imm(0))
	f.MovB32(k.dealt, ptx.Imm(0)).If(none)
}

// leaveLead turns a row that is dealt out into the row of the weights, below 0 in the lead: packed weights have rows for that, of
// row-major ones the copy finds none, which arrive as zeros.
func (k *skeleton) leaveLead(row ptx.B32) {
	if k.sharded() {
		k.f.SubU32(row, row, k.shardLead())
	}
}

// toIDs ends an item's rows where those that count do, and turns rows that are dealt out into ids.
func (c *samplers) toIDs(s span) {
	if !c.sharded() {
		c.f.MinU32(s.end, s.end, c.vocab)
		return
	}
	base, all := c.shardBase(), c.f.B32("rows_dealt")
	c.f.AddU32(all, loadU32(c.f, c.sig.shard.count, "shard_count"), c.shardLead())
	c.f.MinU32(s.end, s.end, all)
	c.f.AddU32(s.row, s.row, base)
	c.f.AddU32(s.end, s.end, base)
}

// notBefore clears p for ids ahead of the shard.
func (c *samplers) notBefore(p ptx.Pred, id ptx.B32) {
	if c.sharded() {
		c.f.SetpAndU32(ptx.GE, p, id, c.shardStart(), p)
	}
}

// among sets p where an id is one that the kernel samples from, and q holds.
func (c *samplers) among(p ptx.Pred, id ptx.B32, q ptx.Pred) {
	if !c.sharded() {
		c.f.SetpAndU32(ptx.LT, p, id, c.vocab, q)
		return
	}
	c.f.SetpAndU32(ptx.LT, p, id, c.shardEnd(), q)
	c.notBefore(p, id)
}

// rowOf is the row dealt out that an id has, and sets p if the kernel has it.
func (c *samplers) rowOf(p ptx.Pred, id ptx.B32) ptx.B32 {
	if !c.sharded() {
		c.f.SetpU32(ptx.LT, p, id, c.vocab)
		return id
	}
	row := c.f.B32("token_row")
	c.f.SetpU32(ptx.LT, p, id, c.shardEnd())
	c.notBefore(p, id)
	c.f.SubU32(row, id, c.shardBase())
	return row
}
