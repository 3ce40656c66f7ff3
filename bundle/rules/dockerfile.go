package rules

import (
	"regexp"
	"strings"
)

// labelsOf returns the labels that a Dockerfile gives the image. An instruction can have several labels and several lines, with quotes or
// without, as KEY=VALUE or in the old form KEY VALUE. Of a repeated label, the last value counts. Labels of earlier stages do not count.
func labelsOf(dockerfile string) map[string]string {
	labels := map[string]string{}
	for _, instruction := range instructions(dockerfile) {
		name, rest, _ := strings.Cut(instruction, " ")
		switch strings.ToUpper(name) {
		case "FROM":
			labels = map[string]string{}
		case "LABEL":
			words := words(rest)
			if len(words) > 0 && !strings.Contains(words[0], "=") {
				labels[words[0]] = strings.Join(words[1:], " ")
				continue
			}
			for _, word := range words {
				key, value, _ := strings.Cut(word, "=")
				labels[key] = value
			}
		}
	}
	return labels
}

// escapeDirective matches the comment at the beginning of a Dockerfile that makes another character continue lines.
var escapeDirective = regexp.MustCompile("(?i)^#\\s*escape\\s*=\\s*([`\\\\])")

// instructions returns the instructions of a Dockerfile, each on one line, without comments.
func instructions(dockerfile string) (all []string) {
	continues := `\`
	if directive := escapeDirective.FindStringSubmatch(dockerfile); directive != nil {
		continues = directive[1]
	}
	current := ""
	for line := range strings.Lines(dockerfile) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue // also within an instruction
		}
		if begin, more := strings.CutSuffix(line, continues); more {
			current += begin + " "
			continue
		}
		all = append(all, strings.ReplaceAll(strings.TrimSpace(current+line), "\t", " "))
		current = ""
	}
	return all
}

// words splits a text at spaces outside of quotes, and removes quotes and escapes.
func words(text string) (all []string) {
	var word strings.Builder
	begun := false
	var quote rune
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				all = append(all, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		all = append(all, word.String())
	}
	return all
}
