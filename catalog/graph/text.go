package graph

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/olm/upgrade"
)

// A skipRange is a node of its own in Mermaid and DOT: arrows from every version in the range would hide all other arrows. These formats
// have no legend, so an edge that OLM never takes has a label that says so.

// never is the label of an edge that OLM never takes, and neverColor its color.
const (
	never      = "never taken by OLM"
	neverColor = "#9ca3af"
)

// Mermaid returns a package as a Mermaid flowchart, which GitHub and GitLab draw in Markdown.
func (p *Package) Mermaid() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%%%% %s\nflowchart BT\n", escape.Mermaid(p.Name))
	m := mermaid{Builder: &text}
	for i, c := range p.Channels {
		fmt.Fprintf(&text, "  subgraph c%d[\"%s\"]\n    direction BT\n", i, escape.Mermaid(c.title()))
		for _, n := range c.Nodes {
			fmt.Fprintf(&text, "    c%dn%d[\"%s\"]%s\n", i, n.Row, escape.Mermaid(n.label()), mermaidClass(n))
		}
		for _, e := range c.Edges {
			from, to := fmt.Sprintf("c%dn%d", i, e.From.Row), fmt.Sprintf("c%dn%d", i, e.To.Row)
			switch {
			case e.Kind == upgrade.SkipRange: // it has a node
			case e.To.Passed:
				m.link(from, "-. "+e.label()+" .->", to, true)
			case e.Kind == upgrade.Skips:
				m.link(from, "-. skips .->", to, false)
			default:
				m.link(from, "-->", to, false)
			}
		}
		for _, n := range c.Nodes {
			if n.Range != "" {
				m.link(fmt.Sprintf("c%dr%d([\"%s\"])", i, n.Row, escape.Mermaid(n.Range)), "-.->", fmt.Sprintf("c%dn%d", i, n.Row), n.Passed)
			}
		}
		text.WriteString("  end\n")
	}
	if strings.Contains(text.String(), ":::new") {
		text.WriteString("  classDef new stroke:#0f766e,color:#0f766e\n")
	}
	text.WriteString("  classDef head stroke-width:3px\n  classDef deprecated stroke:#b45309,color:#b45309\n  classDef stranded stroke:#b91c1c,color:#b91c1c\n  classDef outside stroke-dasharray:4 3\n")
	if len(m.grey) > 0 {
		fmt.Fprintf(&text, "  linkStyle %s stroke:%s,color:%s,stroke-dasharray:6 5\n", strings.Join(m.grey, ","), neverColor, neverColor)
	}
	return text.String()
}

// mermaid writes the links of a flowchart. Mermaid styles them by their numbers.
type mermaid struct {
	*strings.Builder
	links int
	grey  []string
}

func (m *mermaid) link(from, arrow, to string, never bool) {
	fmt.Fprintf(m, "    %s %s %s\n", from, arrow, to)
	if never {
		m.grey = append(m.grey, strconv.Itoa(m.links))
	}
	m.links++
}

// label returns the text on an edge that OLM never takes.
func (e Edge) label() string {
	if e.Kind == upgrade.Skips {
		return "skips, " + never
	}
	return never
}

func mermaidClass(n *Node) string {
	if states := n.states(); len(states) > 0 {
		return ":::" + states[len(states)-1]
	}
	return ""
}

// DOT returns a package in the language of Graphviz.
func (p *Package) DOT() string {
	var text strings.Builder
	fmt.Fprintf(&text, "digraph %s {\n  rankdir=BT\n  node [shape=box, style=rounded, fontname=\"sans-serif\"]\n  edge [fontname=\"sans-serif\", fontsize=10]\n", escape.DOT(p.Name))
	for i, c := range p.Channels {
		fmt.Fprintf(&text, "  subgraph cluster_%d {\n    label=%s\n", i, escape.DOT(c.title()))
		for _, n := range c.Nodes {
			fmt.Fprintf(&text, "    c%dn%d [label=%s%s]\n", i, n.Row, escape.DOT(n.label()), dotStyle(n))
			if n.Range != "" {
				style := ""
				if n.Passed {
					style = fmt.Sprintf(", color=%q, fontcolor=%q, label=%q", neverColor, neverColor, never)
				}
				fmt.Fprintf(&text, "    c%dr%d [label=%s, shape=plain]\n    c%dr%d -> c%dn%d [style=dotted%s]\n", i, n.Row, escape.DOT(n.Range), i, n.Row, i, n.Row, style)
			}
		}
		for _, e := range c.Edges {
			if e.Kind == upgrade.SkipRange {
				continue // it has a node
			}
			style := ""
			switch {
			case e.To.Passed:
				style = fmt.Sprintf(" [style=dashed, color=%q, fontcolor=%q, label=%q]", neverColor, neverColor, e.label())
			case e.Kind == upgrade.Skips:
				style = ` [style=dashed, label="skips"]`
			}
			fmt.Fprintf(&text, "    c%dn%d -> c%dn%d%s\n", i, e.From.Row, i, e.To.Row, style)
		}
		text.WriteString("  }\n")
	}
	return text.String() + "}\n"
}

// dotStyles are the styles of states.
var dotStyles = map[string]string{
	"head": ", penwidth=3", "outside": `, style="rounded,dashed"`,
	"deprecated": `, color="#b45309", fontcolor="#b45309"`, "stranded": `, color="#b91c1c", fontcolor="#b91c1c"`,
}

func dotStyle(n *Node) (style string) {
	for _, state := range n.states() {
		style += dotStyles[state]
	}
	return style
}

// title returns the name of the channel and its states.
func (c *Channel) title() string {
	title := c.Name
	if c.Default {
		title += " (default)"
	}
	if c.Deprecated != "" {
		title += " (deprecated)"
	}
	if c.Broken != "" {
		title += " (" + c.Broken + ": OLM resolves nothing)"
	}
	return title
}

// label returns the version and its states.
func (n *Node) label() string {
	if states := n.states(); len(states) > 0 {
		return n.Version + " (" + strings.Join(states, ", ") + ")"
	}
	return n.Version
}

// states returns the states of a version, such as deprecated. They are also its CSS classes; the style of a later state wins.
func (n *Node) states() (all []string) {
	for _, state := range []struct {
		name string
		is   bool
	}{{"head", n.Head}, {"new", n.New}, {"outside", n.Outside}, {"deprecated", n.Deprecated != ""}, {"stranded", n.Stranded}} {
		if state.is {
			all = append(all, state.name)
		}
	}
	return all
}
