package trust

import (
	"errors"
	"regexp"
	"strings"
)

// maxPattern is the length of a pattern in bytes.
const maxPattern = 1024

// pattern is a path pattern of a CODEOWNERS file: like one of .gitignore,
// without "!" and "[ ]", and "docs/*" means the files of the folder and not
// those below.
type pattern struct {
	text string
	re   *regexp.Regexp
}

func parsePattern(text string) (pattern, error) {
	switch {
	case text == "" || text == "/":
		return pattern{}, errors.New("a pattern of paths must not be empty; * means every file")
	case len(text) > maxPattern:
		return pattern{}, errors.New("the pattern is too long")
	case strings.HasPrefix(text, "!"):
		return pattern{}, errors.New("! is not known in patterns of CODEOWNERS; put a rule for the exception after this one")
	case strings.ContainsAny(text, `[]\`):
		return pattern{}, errors.New(`[, ] and \ are not known in patterns of CODEOWNERS`)
	case strings.Contains(text, "//") || strings.Contains("/"+text+"/", "/../") || strings.Contains("/"+text+"/", "/./"):
		return pattern{}, errors.New("the pattern can match no path of a repository")
	}
	re, err := regexp.Compile(expression(text))
	return pattern{text, re}, err
}

// expression is the regular expression of a pattern. It is matched in linear
// time.
func expression(text string) string {
	body, anchored := strings.CutPrefix(text, "/")
	body, folder := strings.CutSuffix(body, "/")
	anchored = anchored || strings.Contains(body, "/")
	segments := strings.Split(body, "/")
	var b strings.Builder
	b.WriteString(`\A`)
	if !anchored {
		b.WriteString(`(?:.*/)?`)
	}
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "**" && last:
			b.WriteString(`.+`)
		case s == "**":
			b.WriteString(`(?:.*/)?`)
		default:
			for _, r := range s {
				switch r {
				case '*':
					b.WriteString(`[^/]*`)
				case '?':
					b.WriteString(`[^/]`)
				default:
					b.WriteString(regexp.QuoteMeta(string(r)))
				}
			}
			if !last {
				b.WriteByte('/')
			}
		}
	}
	switch {
	case folder:
		b.WriteString(`/.*`)
	case anchored && segments[len(segments)-1] == "*": // the files of a folder
	default:
		b.WriteString(`(?:/.*)?`)
	}
	b.WriteString(`\z`)
	return `(?s)` + b.String()
}

func (p pattern) match(path string) bool { return p.re.MatchString(path) }

// wildcard matches a whole text: * is any number of characters and ? is one.
// It costs the product of the lengths at most.
func wildcard(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*':
			p, t = p+1, t+1
		case p < len(pattern) && pattern[p] == '*':
			star, mark, p = p, t, p+1
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

func anyWildcard(patterns []string, text string) bool {
	for _, p := range patterns {
		if wildcard(p, text) {
			return true
		}
	}
	return false
}
