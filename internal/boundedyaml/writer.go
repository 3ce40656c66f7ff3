package boundedyaml

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

var (
	errTooLong = errors.New("too long")
	errTooDeep = errors.New("too deep")
)

// writer writes decoded YAML as JSON, up to a limit.
type writer struct {
	out   []byte
	limit int
}

// value writes a value at a nesting depth.
func (w *writer) value(value any, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if len(w.out) > w.limit {
		return errTooLong
	}
	switch v := value.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case string:
		return w.text(v)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int:
		w.out = strconv.AppendInt(w.out, int64(v), 10)
	case []any:
		return w.sequence(v, depth)
	case map[any]any:
		return w.mapping(v, depth)
	default:
		return w.other(v)
	}
	return nil
}

// other writes numbers other than int, and text to escape.
func (w *writer) other(value any) error {
	text, err := json.Marshal(value)
	w.out = append(w.out, text...)
	return err
}

func (w *writer) text(text string) error {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return w.other(text)
		}
	}
	w.out = append(append(append(w.out, '"'), text...), '"')
	return nil
}

func (w *writer) sequence(values []any, depth int) error {
	w.out = append(w.out, '[')
	for i, v := range values {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(v, depth+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *writer) mapping(values map[any]any, depth int) error {
	type member struct {
		key, kind string
		value     any
	}
	members := make([]member, 0, len(values))
	for k, v := range values {
		key, err := keyOf(k)
		if err != nil {
			return err
		}
		members = append(members, member{key, typeOf(k), v})
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.kind, b.kind)) })
	w.out = append(w.out, '{')
	for i, m := range members {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.text(m.key); err != nil {
			return err
		}
		w.out = append(w.out, ':')
		if err := w.value(m.value, depth+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}

// keyOf returns a mapping key as text.
func keyOf(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case int:
		return strconv.Itoa(k), nil
	case bool:
		return strconv.FormatBool(k), nil
	case float64:
		switch text := strconv.FormatFloat(k, 'g', -1, 32); text {
		case "+Inf":
			return ".inf", nil
		case "-Inf":
			return "-.inf", nil
		case "NaN":
			return ".nan", nil
		default:
			return text, nil
		}
	}
	return "", fmt.Errorf("unsupported map key of type: %s", typeOf(key))
}
