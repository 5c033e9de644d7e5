// The least that anybody can do to label every node: lists the nodes, metadata only, and patches each once, with a
// number of calls in flight over one HTTP/2 connection. Prints the seconds from its start. What it takes is the
// API server's time; an operator can only add to it.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"
)

var (
	server   = flag.String("server", "", "URL of the API server")
	token    = flag.String("token", "", "bearer token")
	inFlight = flag.Int("in-flight", 32, "calls at once")
	nodes    = flag.Int("nodes", 0, "how many nodes to patch, the first ones by name")
	labels   = flag.String("labels", "", "the labels to set, as a JSON object")
)

type list struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	} `json:"items"`
}

func call(client *http.Client, method, path, accept, body string) []byte {
	request, err := http.NewRequest(method, *server+path, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+*token)
	request.Header.Set("Accept", accept)
	if body != "" {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		log.Fatalf("%s %s: %s %v %.300s", method, path, answer.Status, err, text)
	}
	return text
}

func main() {
	flag.Parse()
	started := time.Now()
	client := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // a test server's own certificate
	}}
	var names []string
	for next := ""; ; {
		var page list
		text := call(client, "GET", "/api/v1/nodes?limit=500&continue="+next,
			"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "")
		if err := json.Unmarshal(text, &page); err != nil {
			log.Fatal(err)
		}
		for _, item := range page.Items {
			names = append(names, item.Metadata.Name)
		}
		if next = page.Metadata.Continue; next == "" {
			break
		}
	}
	names = names[:*nodes]
	patch := `{"metadata":{"labels":` + *labels + `}}`
	work := make(chan string)
	var workers sync.WaitGroup
	for range *inFlight {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for name := range work {
				call(client, "PATCH", "/api/v1/nodes/"+name+"?fieldManager=bare-client",
					"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", patch)
			}
		}()
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	workers.Wait()
	fmt.Printf("%.2f\n", time.Since(started).Seconds())
}
