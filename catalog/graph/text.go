package graph

import (
	"fmt"
	"strings"

	"github.com/berth-csi/berth/findings/escape"
	"github.com/berth-csi/berth/olm/upgrade"
)

// A skipRange is a node of its own in Mermaid and DOT: an arrow from every version in it would hide all
// others.

// Mermaid returns a package as a Mermaid flowchart, which GitHub and GitLab draw in Markdown.
func (p *Package) Mermaid() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%%%% %s\nflowchart BT\n", escape.Mermaid(p.Name))
	for i, c := range p.Channels {
		fmt.Fprintf(&text, "  subgraph c%d[\"%s\"]\n    direction BT\n", i, escape.Mermaid(c.title()))
		for _, n := range c.Nodes {
			fmt.Fprintf(&text, "    c%dn%d[\"%s\"]%s\n", i, n.Row, escape.Mermaid(n.label()), mermaidClass(n))
		}
		for _, e := range c.Edges {
			switch e.Kind {
			case upgrade.Replaces:
				fmt.Fprintf(&text, "    c%dn%d --> c%dn%d\n", i, e.From.Row, i, e.To.Row)
			case upgrade.Skips:
				fmt.Fprintf(&text, "    c%dn%d -. skips .-> c%dn%d\n", i, e.From.Row, i, e.To.Row)
			}
		}
		for _, n := range c.Nodes {
			if n.Range != "" {
				fmt.Fprintf(&text, "    c%dr%d([\"%s\"]) -.-> c%dn%d\n", i, n.Row, escape.Mermaid(n.Range), i, n.Row)
			}
		}
		text.WriteString("  end\n")
	}
	text.WriteString("  classDef head stroke-width:3px\n  classDef deprecated stroke:#b45309,color:#b45309\n  classDef stranded stroke:#b91c1c,color:#b91c1c\n  classDef outside stroke-dasharray:4 3\n")
	return text.String()
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
				fmt.Fprintf(&text, "    c%dr%d [label=%s, shape=plain]\n    c%dr%d -> c%dn%d [style=dotted]\n", i, n.Row, escape.DOT(n.Range), i, n.Row, i, n.Row)
			}
		}
		for _, e := range c.Edges {
			switch e.Kind {
			case upgrade.Replaces:
				fmt.Fprintf(&text, "    c%dn%d -> c%dn%d\n", i, e.From.Row, i, e.To.Row)
			case upgrade.Skips:
				fmt.Fprintf(&text, "    c%dn%d -> c%dn%d [style=dashed, label=\"skips\"]\n", i, e.From.Row, i, e.To.Row)
			}
		}
		text.WriteString("  }\n")
	}
	return text.String() + "}\n"
}

// dotStyles are how states look.
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

// title says which channel it is.
func (c *Channel) title() string {
	title := c.Name
	if c.Default {
		title += " (default)"
	}
	if c.Deprecated != "" {
		title += " (deprecated)"
	}
	return title
}

// label says which version it is, and what is special about it.
func (n *Node) label() string {
	if states := n.states(); len(states) > 0 {
		return n.Version + " (" + strings.Join(states, ", ") + ")"
	}
	return n.Version
}

// states are what is special about a version; as classes they give it its style, the later ones
// before the earlier.
func (n *Node) states() (all []string) {
	for _, state := range []struct {
		name string
		is   bool
	}{{"head", n.Head}, {"outside", n.Outside}, {"deprecated", n.Deprecated != ""}, {"stranded", n.Stranded}} {
		if state.is {
			all = append(all, state.name)
		}
	}
	return all
}
