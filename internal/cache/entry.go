package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// An entry file is
//
//	magic    8 bytes  "fsgencch"
//	version  uint32   entryVersion
//	keyLen   uint32
//	dataLen  uint64
//	sum      32 bytes SHA-256 of everything but itself: the 24 bytes above, the key, the data
//	key      keyLen bytes
//	data     dataLen bytes
//
// with little-endian numbers and nothing after. The key is in the file, and under the checksum, so that another
// entry's file moved to this name is found out.
const (
	entryMagic   = "fsgencch"
	entryVersion = 1
	fixedSize    = 24
	headerSize   = fixedSize + sha256.Size
)

// encodeHeader returns the entry file's bytes before the data.
func encodeHeader(key string, data []byte) []byte {
	h := make([]byte, 0, headerSize+len(key))
	h = append(h, entryMagic...)
	h = binary.LittleEndian.AppendUint32(h, entryVersion)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(key)))
	h = binary.LittleEndian.AppendUint64(h, uint64(len(data)))
	sum := checksum(h, []byte(key), data)
	h = append(h, sum[:]...)
	return append(h, key...)
}

// decode returns the data of an entry file, or an errBad that says what is wrong with it.
func decode(key string, file []byte) ([]byte, error) {
	if len(file) < headerSize {
		return nil, fmt.Errorf("%w: %d bytes is shorter than a header", errBad, len(file))
	}
	fixed, rest := file[:fixedSize], file[headerSize:]
	if string(fixed[:8]) != entryMagic {
		return nil, fmt.Errorf("%w: not a cache entry", errBad)
	}
	if v := binary.LittleEndian.Uint32(fixed[8:]); v != entryVersion {
		return nil, fmt.Errorf("%w: format version %d, want %d", errBad, v, entryVersion)
	}
	keyLen, dataLen := uint64(binary.LittleEndian.Uint32(fixed[12:])), binary.LittleEndian.Uint64(fixed[16:])
	if have := uint64(len(rest)); keyLen > have || have-keyLen != dataLen {
		return nil, fmt.Errorf("%w: holds %d bytes, header says %d of key and %d of data", errBad, have, keyLen, dataLen)
	}
	fileKey, data := rest[:keyLen], rest[keyLen:]
	if sum := checksum(fixed, fileKey, data); !bytes.Equal(sum[:], file[fixedSize:headerSize]) {
		return nil, fmt.Errorf("%w: checksum does not match", errBad)
	}
	if string(fileKey) != key {
		return nil, fmt.Errorf("%w: holds the entry %q", errBad, fileKey)
	}
	return data, nil
}

func checksum(parts ...[]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(sum[:0])
	return sum
}
