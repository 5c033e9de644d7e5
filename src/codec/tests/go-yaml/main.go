// What sigs.k8s.io/yaml makes of documents: reads a JSON list of texts from standard input and writes a list of
// {"json": the value, "error": why there is none, "strict": why YAMLToJSONStrict refuses it}.
package main

import (
	"encoding/json"
	"log"
	"os"

	"sigs.k8s.io/yaml"
)

type outcome struct {
	JSON   json.RawMessage `json:"json"`
	Error  string          `json:"error"`
	Strict string          `json:"strict"`
}

func main() {
	var documents []string
	if err := json.NewDecoder(os.Stdin).Decode(&documents); err != nil {
		log.Fatal(err)
	}
	outcomes := make([]outcome, len(documents))
	for i, document := range documents {
		value, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			outcomes[i].Error = err.Error()
			continue
		}
		outcomes[i].JSON = value
		if _, err := yaml.YAMLToJSONStrict([]byte(document)); err != nil {
			outcomes[i].Strict = err.Error()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(outcomes); err != nil {
		log.Fatal(err)
	}
}
