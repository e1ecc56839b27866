package validate

// The words of Finding.Rule that this package uses.
const (
	RuleSyntax       = "Syntax"       // cannot be read at all
	RuleUnknownField = "UnknownField" // the kind has no such field
	RuleDuplicate    = "Duplicate"    // a field or an item is there twice
	RuleRequired     = "Required"     // something is missing
	RuleWrongType    = "WrongType"    // a string where a number belongs
	RuleOutOfRange   = "OutOfRange"   // a number too small or too large
	RuleNotSupported = "NotSupported" // not one of the words a field takes
	RuleInvalid      = "Invalid"      // of the right type, but badly formed
	RuleTooLong      = "TooLong"      // more characters than allowed
	RuleTooMany      = "TooMany"      // more items than allowed
	RuleNotFound     = "NotFound"     // names something that is not there
	RuleForbidden    = "Forbidden"    // not together with something else
)
