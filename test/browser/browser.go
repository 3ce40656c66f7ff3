// Package browser opens pages in a real, headless Chromium, for tests of pages.
package browser

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// programs are the names of Chromium's programs. The first is the smallest.
var programs = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// limit is the time limit for a response of Chromium.
const limit = time.Minute

// Page is a page in its own browser.
type Page struct {
	t       testing.TB
	session string
	send    *json.Encoder
	pipe    *os.File

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	failed  error
	faults  []string
}

// message is a message of the DevTools protocol: a command, a response or an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Open starts a browser with an empty page of a size in pixels, until the test ends. The test fails if the page has an error, or tries to
// load anything from a network.
func Open(t testing.TB, width, height int) *Page {
	t.Helper()
	p := &Page{t: t, waiting: map[int]chan message{}}
	p.start(program(t))
	var target struct{ TargetID, SessionID string }
	p.command("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	p.command("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	p.mu.Lock()
	p.session = target.SessionID
	p.mu.Unlock()
	p.command("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.command(domain+".enable", map[string]any{}, nil)
	}
	return p
}

// program finds Chromium.
func program(t testing.TB) string {
	t.Helper()
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("no Chromium on the PATH, want one of %v: apt-get install %s", programs, programs[0])
	return ""
}

// start starts the browser, which reads commands from file descriptor 3 and writes responses to file descriptor 4. It
// ends when they are closed.
func (p *Page) start(path string) {
	p.t.Helper()
	commands, send, err := os.Pipe()
	require.NoError(p.t, err)
	receive, answers, err := os.Pipe()
	require.NoError(p.t, err)
	browser := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--user-data-dir="+p.t.TempDir())
	browser.ExtraFiles = []*os.File{commands, answers}
	require.NoError(p.t, browser.Start())
	_, _ = commands.Close(), answers.Close() // the browser has them now
	p.pipe, p.send = send, json.NewEncoder(send)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.receive(receive)
	}()
	p.t.Cleanup(func() {
		_ = send.Close()
		_ = browser.Wait()
		<-ended
		_ = receive.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, fault := range p.faults {
			p.t.Errorf("the page: %s", fault)
		}
	})
}

// receive passes responses to their waiting callers, until the browser ends.
func (p *Page) receive(from *os.File) {
	decoder := json.NewDecoder(&unterminated{from})
	for {
		var m message
		err := decoder.Decode(&m)
		p.mu.Lock()
		if err != nil {
			p.failed = err
			for _, waiting := range p.waiting {
				close(waiting)
			}
			p.waiting = nil
			p.mu.Unlock()
			return
		}
		if waiting := p.waiting[m.ID]; waiting != nil {
			waiting <- m
			delete(p.waiting, m.ID)
		}
		p.note(m)
		p.mu.Unlock()
	}
}

// note records events that a page must not cause.
func (p *Page) note(m message) {
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded":
		p.faults = append(p.faults, string(m.Params))
	case "Network.requestWillBeSent":
		var sent struct {
			Request struct{ URL string }
		}
		if json.Unmarshal(m.Params, &sent) == nil && !local(sent.Request.URL) {
			p.faults = append(p.faults, "it loads "+sent.Request.URL)
		}
	}
}

// local reports whether loading a URL needs no network.
func local(url string) bool {
	for _, scheme := range []string{"file:", "data:", "about:"} {
		if len(url) >= len(scheme) && url[:len(scheme)] == scheme {
			return true
		}
	}
	return false
}

// command sends the browser a command, and decodes the response.
func (p *Page) command(method string, params, into any) {
	p.t.Helper()
	encoded, err := json.Marshal(params)
	require.NoError(p.t, err)
	p.mu.Lock()
	if p.failed != nil {
		p.mu.Unlock()
		p.t.Fatalf("%s: Chromium has ended: %v", method, p.failed)
	}
	p.last++
	answer := make(chan message, 1)
	p.waiting[p.last] = answer
	err = errors.Join(p.send.Encode(message{ID: p.last, Method: method, Params: encoded, SessionID: p.session}), terminate(p.pipe))
	p.mu.Unlock()
	require.NoError(p.t, err, method)
	select {
	case m, ok := <-answer:
		if !ok {
			p.t.Fatalf("%s: Chromium has ended", method)
		}
		if m.Error != nil {
			p.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if into != nil {
			require.NoError(p.t, json.Unmarshal(m.Result, into), method)
		}
	case <-time.After(limit):
		p.t.Fatalf("%s: no answer from Chromium in %s", method, limit)
	}
}

// terminate appends the protocol's terminator to a message.
func terminate(pipe *os.File) error {
	_, err := pipe.Write([]byte{0})
	return err
}

// unterminated reads messages, with their terminators as spaces.
type unterminated struct{ file *os.File }

func (u *unterminated) Read(into []byte) (int, error) {
	n, err := u.file.Read(into)
	for i, b := range into[:n] {
		if b == 0 {
			into[i] = ' '
		}
	}
	return n, err
}

// Load loads a file, and waits until its scripts have run.
func (p *Page) Load(path string) {
	p.t.Helper()
	var answer struct{ ErrorText string }
	p.command("Page.navigate", map[string]any{"url": "file://" + path}, &answer)
	if answer.ErrorText != "" {
		p.t.Fatalf("loading %s: %s", path, answer.ErrorText)
	}
	p.Eval(`new Promise(done => document.readyState === "complete" ? done(true) : addEventListener("load", () => done(true)))`, nil)
}

// Eval evaluates an expression in the page and decodes its value. It awaits promises.
func (p *Page) Eval(expression string, into any) {
	p.t.Helper()
	var answer struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails json.RawMessage
	}
	p.command("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	if into != nil {
		if err := json.Unmarshal(answer.Result.Value, into); err != nil {
			p.t.Fatalf("%s: %v in %s", expression, err, answer.Result.Value)
		}
	}
}

// Click clicks in the middle of the element that a CSS selector selects, as a mouse does: if another element covers
// it, that one is clicked.
func (p *Page) Click(selector string) {
	p.t.Helper()
	var at *struct{ X, Y float64 }
	p.Eval(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		if (!e) return null;
		e.scrollIntoView({block: "center", inline: "center"});
		const r = e.getBoundingClientRect();
		return {X: r.x + r.width / 2, Y: r.y + r.height / 2};
	})()`, selector), &at)
	if at == nil {
		p.t.Fatalf("there is no %s to click", selector)
	}
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		p.command("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
	}
}

// Type types a text into the focused element.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.command("Input.insertText", map[string]any{"text": text}, nil)
}

// keys are keys with their codes and their texts.
var keys = map[string]struct {
	code int
	text string
}{"Tab": {9, ""}, "Enter": {13, "\r"}, "Escape": {27, ""}, "ArrowUp": {38, ""}, "ArrowDown": {40, ""}, "/": {191, "/"}}

// Press presses a key like a keyboard: the focused element receives it.
func (p *Page) Press(key string) {
	p.t.Helper()
	k, known := keys[key]
	if !known {
		p.t.Fatalf("there is no key %q", key)
	}
	p.command("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key, "text": k.text, "windowsVirtualKeyCode": k.code}, nil)
	p.command("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": k.code}, nil)
}

// Screenshot writes an image of the page, as PNG.
func (p *Page) Screenshot(path string) {
	p.t.Helper()
	var answer struct{ Data string }
	p.command("Page.captureScreenshot", map[string]any{"format": "png"}, &answer)
	png, err := base64.StdEncoding.DecodeString(answer.Data)
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	require.NoError(p.t, err)
}
