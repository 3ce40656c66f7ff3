package gateway

import "net/url"

// ReadForm reads the form that the query protocol sends. Action and Version are no parameters.
func ReadForm(r *Request) *Error {
	values, err := url.ParseQuery(string(r.Body))
	if err != nil {
		return Errorf("MalformedQueryString", "The query string contains a syntax error: %v", err)
	}
	for key, value := range r.HTTP.URL.Query() {
		values[key] = value
	}
	r.Action, r.Parameters = values.Get("Action"), map[string]string{}
	for key := range values {
		if key != "Action" && key != "Version" {
			r.Parameters[key] = values.Get(key)
		}
	}
	if r.Action == "" {
		return Errorf("MissingAction", "The request is missing an action or a required parameter.")
	}
	return nil
}
