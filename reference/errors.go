package reference

import "fmt"

// FieldError reports a request that breaks a rule.
type FieldError struct {
	// Field is the field of Request, such as "Temperature".
	Field string
	// Row is the element of the field, or -1 where the field as a whole is wrong.
	Row int
	// Rule is what the field must satisfy.
	Rule string
	// Value is what it was.
	Value any
}

func (e *FieldError) Error() string {
	if e.Row >= 0 {
		return fmt.Sprintf("reference: %s[%d] is %v: want %s", e.Field, e.Row, e.Value, e.Rule)
	}
	return fmt.Sprintf("reference: %s is %v: want %s", e.Field, e.Value, e.Rule)
}

func wrong(field string, value any, rule string, args ...any) error {
	return &FieldError{Field: field, Row: -1, Rule: fmt.Sprintf(rule, args...), Value: value}
}
