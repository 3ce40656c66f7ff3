package controller

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A session is a connection to the SOAP API of a vCenter. It has the five requests that the operator needs. The library
// govmomi has the whole API, but would add 13 MiB to the program that all operators run.
type session struct {
	http     *http.Client
	url      string
	content  serviceContent
	loggedIn bool
	left     int64 // how many more bytes of answers are read
}

// answerLimit is the maximum number of bytes that are read from all answers of a session, because a server may say that there are more hosts
// forever. logoutTimeout is the maximum time for ending a session.
const (
	answerLimit   = 8 << 20
	logoutTimeout = 5 * time.Second
)

// A reference names an object of vCenter.
type reference struct {
	Type  string `xml:"type,attr"`
	Value string `xml:",chardata"`
}

// to begins each request: it names the object of the call.
type to struct {
	This reference `xml:"_this"`
}

// serviceContent has the references from which all other requests start.
type serviceContent struct {
	About struct {
		APIVersion string `xml:"apiVersion"`
		APIType    string `xml:"apiType"`
	} `xml:"about"`
	PropertyCollector reference `xml:"propertyCollector"`
	SearchIndex       reference `xml:"searchIndex"`
	SessionManager    reference `xml:"sessionManager"`
}

// connect asks the vCenter for its version, which needs no login. Like the driver, it trusts the certificate authorities in roots.
func (v vCenter) connect(ctx context.Context, roots *x509.CertPool) (*session, error) {
	jar, err := cookiejar.New(nil) // the session is a cookie
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: v.insecure} // as the cloud configuration says
	s := &session{
		left: answerLimit,
		http: &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		url:  (&url.URL{Scheme: "https", Host: net.JoinHostPort(v.server, strconv.Itoa(v.port)), Path: "/sdk"}).String(),
	}
	var response struct {
		Content serviceContent `xml:"returnval"`
	}
	if err := s.call(ctx, "RetrieveServiceContent", to{reference{"ServiceInstance", "ServiceInstance"}}, &response); err != nil {
		s.close()
		return nil, fmt.Errorf("asking for its version: %w", err)
	}
	if s.content = response.Content; s.content.About.APIType != "VirtualCenter" {
		s.close()
		return nil, fmt.Errorf("its type is %q, want VirtualCenter: the driver needs a vCenter, not a single host", s.content.About.APIType)
	}
	return s, nil
}

// close ends the session.
func (s *session) close() {
	if s.loggedIn {
		ctx, cancel := context.WithTimeout(context.Background(), logoutTimeout)
		defer cancel()
		_ = s.call(ctx, "Logout", to{s.content.SessionManager}, nil) // else vCenter ends it after some time
	}
	s.http.CloseIdleConnections()
}

func (s *session) login(ctx context.Context, user, password string) error {
	request := struct {
		to
		User     string `xml:"userName"`
		Password string `xml:"password"`
	}{to{s.content.SessionManager}, user, password}
	if err := s.call(ctx, "Login", request, nil); err != nil {
		return err
	}
	s.loggedIn = true
	return nil
}

// find returns the object at a path of the inventory, nil if there is none that the user may see.
func (s *session) find(ctx context.Context, path string) (*reference, error) {
	request := struct {
		to
		Path string `xml:"inventoryPath"`
	}{to{s.content.SearchIndex}, strings.TrimPrefix(path, "/")}
	var response struct {
		Found *reference `xml:"returnval"`
	}
	if err := s.call(ctx, "FindByInventoryPath", request, &response); err != nil {
		return nil, fmt.Errorf("looking for %s: %w", path, err)
	}
	return response.Found, nil
}

// A host runs ESXi.
type host struct{ name, apiVersion string }

// hosts returns the hosts of a compute cluster. A host that is not connected has no version, and runs no node.
func (s *session) hosts(ctx context.Context, cluster reference) ([]host, error) {
	type properties struct {
		Type  string   `xml:"type"`
		Paths []string `xml:"pathSet"`
	}
	type selection struct {
		SpecType string `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
		Type     string `xml:"type"`
		Path     string `xml:"path"`
	}
	type object struct {
		Object reference `xml:"obj"`
		Skip   bool      `xml:"skip"`
		Select selection `xml:"selectSet"`
	}
	request := struct {
		to
		Properties properties `xml:"specSet>propSet"`
		Objects    object     `xml:"specSet>objectSet"`
		Options    struct{}   `xml:"options"`
	}{
		to:         to{s.content.PropertyCollector},
		Properties: properties{"HostSystem", []string{"name", "config.product.apiVersion"}},
		Objects:    object{cluster, true, selection{"TraversalSpec", "ComputeResource", "host"}},
	}
	type page struct {
		Result struct {
			Token   string `xml:"token"`
			Objects []struct {
				Properties []struct {
					Name  string `xml:"name"`
					Value string `xml:"val"`
				} `xml:"propSet"`
			} `xml:"objects"`
		} `xml:"returnval"`
	}
	var found []host
	var p page
	err := s.call(ctx, "RetrievePropertiesEx", request, &p)
	for {
		if err != nil {
			return nil, err
		}
		for _, of := range p.Result.Objects {
			values := map[string]string{}
			for _, property := range of.Properties {
				values[property.Name] = property.Value
			}
			if version := values["config.product.apiVersion"]; version != "" {
				found = append(found, host{values["name"], version})
			}
		}
		if p.Result.Token == "" {
			return found, nil
		}
		next := struct {
			to
			Token string `xml:"token"`
		}{to{s.content.PropertyCollector}, p.Result.Token}
		p = page{}
		err = s.call(ctx, "ContinueRetrievePropertiesEx", next, &p)
	}
}

// call sends a request, and decodes the answer into response, unless that is nil. A fault of vCenter is an error.
func (s *session) call(ctx context.Context, method string, request, response any) error {
	var body bytes.Buffer
	body.WriteString(`<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body>`)
	if err := xml.NewEncoder(&body).EncodeElement(request, xml.StartElement{Name: xml.Name{Space: "urn:vim25", Local: method}}); err != nil {
		return err
	}
	body.WriteString(`</e:Body></e:Envelope>`)
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, &body)
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "text/xml; charset=utf-8")
	post.Header.Set("SOAPAction", "urn:vim25/6.7") // the oldest version of the API that has all these requests
	answer, err := s.http.Do(post)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, s.left))
	if err != nil {
		return err
	}
	if s.left -= int64(len(content)); s.left == 0 {
		return fmt.Errorf("its answers have more than %d MiB", answerLimit>>20)
	}
	return decode(answer.Status, content, response)
}

// decode decodes an answer.
func decode(status string, content []byte, response any) error {
	var envelope struct {
		Body struct {
			Fault *struct {
				Message string `xml:"faultstring"`
			} `xml:"Fault"`
			Response struct {
				Content []byte `xml:",innerxml"`
			} `xml:",any"`
		} `xml:"Body"`
	}
	if err := xml.Unmarshal(content, &envelope); err != nil {
		return fmt.Errorf("it answers %s, and not as a vCenter: %w", status, err)
	}
	if fault := envelope.Body.Fault; fault != nil {
		return errors.New(strings.TrimSpace(fault.Message))
	}
	if response == nil {
		return nil
	}
	return xml.Unmarshal(bytes.Join([][]byte{[]byte("<response>"), envelope.Body.Response.Content, []byte("</response>")}, nil), response)
}
