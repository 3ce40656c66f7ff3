package findings

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// Report is the result of checks.
type Report struct {
	// Tool is the command that ran the checks, such as "berth catalog validate".
	Tool string
	// Subject is the checked object, such as a folder.
	Subject string
	// Rules are all rules that were checked, whether violated or not.
	Rules    []Rule
	Findings []*Finding
	// Known is the number of findings that are left out because a baseline has them.
	Known int
}

// Text is the format for users: a line for each finding. Markdown is for the summary of a pull request.
const (
	Text     = "text"
	Markdown = "markdown"
)

var writers = map[string]func(Report, io.Writer) error{
	Text:     Report.writeText,
	Markdown: Report.writeMarkdown,
	"json":   Report.writeJSON,
	"sarif":  Report.writeSARIF,
	"junit":  Report.writeJUnit,
}

// Formats returns the names of all formats.
func Formats() []string { return slices.Sorted(maps.Keys(writers)) }

// Write writes the report in a format. Its output is deterministic.
func (r Report) Write(w io.Writer, format string) error {
	write, known := writers[format]
	if !known {
		return fmt.Errorf("there is no report format %q; expected one of %s", format, strings.Join(Formats(), ", "))
	}
	return write(r, w)
}

func (r Report) writeText(w io.Writer) error {
	for _, f := range r.Findings {
		if _, err := io.WriteString(w, escape.Line(f.String())+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// shownLimit is the maximum number of findings in a summary.
const shownLimit = 50

func (r Report) writeMarkdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "### %s: %s, %s, %d known\n", r.Tool, counted(r.Findings, Error), counted(r.Findings, Warning), r.Known)
	for i, f := range r.Findings[:min(len(r.Findings), shownLimit)] {
		if i == 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "- %s: %s: %s (%s)\n", f.Severity, escape.Markdown(f.Place()), escape.Markdown(f.Message), escape.Markdown(f.Rule))
	}
	if more := len(r.Findings) - shownLimit; more > 0 {
		fmt.Fprintf(&text, "- and %d more\n", more)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// counted returns the number of findings with a severity, and its name.
func counted(all []*Finding, severity Verdict) string {
	if n := Count(all, severity); n != 1 {
		return fmt.Sprintf("%d %ss", n, severity)
	}
	return "1 " + string(severity)
}

// Document is a Report in JSON.
type Document struct {
	Schema string `json:"schema"`
	// Subject is the checked object, such as a folder.
	Subject  string `json:"subject"`
	Errors   int    `json:"errors"`
	Warnings int    `json:"warnings"`
	// Known is the number of findings that are left out because a baseline has them.
	Known    int        `json:"known"`
	Findings []*Finding `json:"findings"`
}

func (r Report) writeJSON(w io.Writer) error {
	return escape.JSON(w, Document{Schema, r.Subject, Count(r.Findings, Error), Count(r.Findings, Warning), r.Known, append([]*Finding{}, r.Findings...)})
}

// The elements of SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/) in reports.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string        `json:"id"`
		ShortDescription sarifMessage  `json:"shortDescription"`
		FullDescription  *sarifMessage `json:"fullDescription,omitempty"`
		Default          sarifDefault  `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level Verdict `json:"level"` // SARIF uses the same words for severities
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     Verdict         `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region *sarifRegion `json:"region,omitempty"`
		} `json:"physicalLocation"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

func (r Report) writeSARIF(w io.Writer) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: r.Tool, Rules: []sarifRule{}}
	for _, rule := range r.Rules {
		described := sarifRule{ID: rule.ID, ShortDescription: sarifMessage{rule.What}, Default: sarifDefault{rule.Severity}}
		if rule.Why != "" {
			described.FullDescription = &sarifMessage{rule.What + " " + rule.Why}
		}
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, described)
	}
	for _, f := range r.Findings {
		var location sarifLocation
		location.Physical.Artifact.URI = (&url.URL{Path: filepath.ToSlash(f.File)}).String()
		if f.Line > 0 {
			location.Physical.Region = &sarifRegion{f.Line, f.Column}
		}
		run.Results = append(run.Results, sarifResult{f.Rule, f.Severity, sarifMessage{escape.SARIF(f.Message)}, []sarifLocation{location}})
	}
	return escape.JSON(w, sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// The elements of JUnit on which CI systems agree.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitFailure `xml:"failure"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes a test case for each rule. The test case fails if the rule has an error; its output has the warnings.
func (r Report) writeJUnit(w io.Writer) error {
	suite := junitSuite{Name: escape.Line(r.Tool + " " + r.Subject), Tests: len(r.Rules)}
	for _, rule := range r.Rules {
		test := junitCase{Class: r.Tool, Name: rule.ID}
		var failures, output []string
		for _, f := range r.Findings {
			switch {
			case f.Rule != rule.ID:
			case f.Severity == Error:
				failures = append(failures, escape.Line(f.String()))
			default:
				output = append(output, escape.Line(f.String()))
			}
		}
		if len(failures) > 0 {
			suite.Failures++
			test.Failure = &junitFailure{Message: rule.What, Type: rule.ID, Text: strings.Join(failures, "\n")}
		}
		test.Output = strings.Join(output, "\n")
		suite.Cases = append(suite.Cases, test)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(junitSuites{Suites: []junitSuite{suite}}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
