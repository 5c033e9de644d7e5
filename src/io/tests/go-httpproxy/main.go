// Says which proxy Go's own HTTP client takes. Reads lines
//
//	HTTP_PROXY<tab>HTTPS_PROXY<tab>NO_PROXY<tab>URL URL ...
//
// and writes a line for each URL: the proxy's URL, "direct", or "error". net/http reads the environment
// once in a process, so each line is answered by a process of its own.
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

func answer(url string) string {
	request, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return "error"
	}
	proxy, err := http.ProxyFromEnvironment(request)
	if err != nil {
		return "error"
	}
	if proxy == nil {
		return "direct"
	}
	return proxy.String()
}

func main() {
	if len(os.Args) > 1 {
		for _, url := range os.Args[1:] {
			fmt.Println(answer(url))
		}
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 4 {
			fmt.Fprintln(os.Stderr, "four fields are needed:", lines.Text())
			os.Exit(2)
		}
		child := exec.Command(os.Args[0], strings.Fields(fields[3])...)
		child.Env = []string{"HTTP_PROXY=" + fields[0], "HTTPS_PROXY=" + fields[1], "NO_PROXY=" + fields[2]}
		output, err := child.Output()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(string(output))
	}
}
