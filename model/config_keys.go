package model

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// configKeys is a config.json opened at its language model.
type configKeys struct {
	file          string
	top           jsonObject
	text          jsonObject // the nested language model; nil if the config is flat
	textPath      string     // its path, such as "text_config"
	modelType     string
	architectures []string
	family        family
}

// nestedTexts are the keys under which composite models keep their language model.
var nestedTexts = []string{"text_config", "llm_config", "language_config", "thinker_config"}

func newConfigKeys(file string, top jsonObject) (*configKeys, error) {
	k := &configKeys{file: file, top: top}
	if err := k.findText(); err != nil {
		return nil, err
	}
	outer, err := k.optString(top, "model_type")
	if err != nil {
		return nil, err
	}
	k.modelType = outer
	if k.text != nil {
		if k.modelType, err = k.optString(k.text, "model_type"); err != nil {
			return nil, err
		}
		if k.modelType == "" {
			k.modelType = textTypes[outer] // a nested config written as a difference may leave out even its type
		}
	}
	if k.architectures, err = k.readArchitectures(); err != nil {
		return nil, err
	}
	k.family = findFamily(k.modelType, k.architectures)
	return k, nil
}

// findText follows the nesting; two nested language models are one too many to choose from.
func (k *configKeys) findText() error {
	at, path := k.top, ""
	for range 2 { // thinker_config holds a text_config of its own
		var found string
		for _, name := range nestedTexts {
			if _, ok := at[name].(jsonObject); !ok {
				if v, present := at[name]; present && v != nil {
					return fail(ErrMalformed, k.file, "want an object", "%s is %s", join(path, name), describe(v))
				}
				continue
			}
			if found != "" {
				return fail(ErrAmbiguous, k.file, "only one nested language model is understood", "%s and %s", join(path, found), join(path, name))
			}
			found = name
		}
		if found == "" {
			return nil
		}
		at, path = at[found].(jsonObject), join(path, found)
		k.text, k.textPath = at, path
	}
	return nil
}

// lookup finds a key in the nested config first, then at the top, with the path it was found at. A null counts as
// present.
func (k *configKeys) lookup(key string) (v any, path string, ok bool) {
	if v, ok = k.text[key]; ok {
		return v, join(k.textPath, key), true
	}
	v, ok = k.top[key]
	return v, key, ok
}

func (k *configKeys) optString(o jsonObject, key string) (string, error) {
	switch v := o[key].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	default:
		return "", fail(ErrMalformed, k.file, "want a string", "%s is %s", key, describe(v))
	}
}

func (k *configKeys) readArchitectures() (names []string, err error) {
	v := k.top["architectures"]
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, fail(ErrMalformed, k.file, "want an array of strings", "architectures is %s", describe(v))
	}
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return nil, fail(ErrMalformed, k.file, "want an array of strings", "architectures holds %s", describe(e))
		}
		names = append(names, s)
	}
	return names, nil
}

// size checks a vocabulary or hidden size: a plain integer from 1 to 2^31-1, so that ids fit the int32 that devices
// return.
func (k *configKeys) size(path string, v any) (int, error) {
	if num, ok := v.(json.Number); ok {
		if n, ok := natural(num); ok && n >= 1 && n <= math.MaxInt32 {
			return int(n), nil
		}
	}
	return 0, fail(ErrMalformed, k.file, "want an integer from 1 to 2147483647", "%s is %s", path, describe(v))
}

// number checks a finite float.
func (k *configKeys) number(path string, v any) (float64, error) {
	if num, ok := v.(json.Number); ok {
		if f, err := strconv.ParseFloat(num.String(), 64); err == nil {
			return f, nil
		}
	}
	return 0, fail(ErrMalformed, k.file, "want a finite number", "%s is %s", path, describe(v))
}

// factor checks a scale or a cap: finite, positive, and still so in float32, which the logits are computed in.
func (k *configKeys) factor(path string, v any) (float64, error) {
	f, err := k.number(path, v)
	if err == nil && !inFloat32(f) {
		err = fail(ErrMalformed, k.file, "want a positive number within float32", "%s is %s", path, describe(v))
	}
	return f, err
}

func inFloat32(f float64) bool { return f >= math.SmallestNonzeroFloat32 && f <= math.MaxFloat32 }

// missing is the error for a required key.
func (k *configKeys) missing(keys ...string) error {
	where := ""
	if k.text != nil {
		where = " (looked in " + k.textPath + " and at the top)"
	}
	return fail(ErrMissing, k.file, "config.json must say", "%s%s; model_type is %q", strings.Join(keys, " or "), where, k.modelType)
}

func (k *configKeys) defaultOf(v any) string {
	return fmt.Sprintf("default of model_type %s (%v)", k.modelType, v)
}
