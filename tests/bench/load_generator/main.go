// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: onprem.kube_scheduling contributors

// A client that sends the requests of a file one after the other over keep-alive connections, as kube-scheduler does with one connection.
// It prints requests per second and percentiles of the latency as JSON.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	maxBodyBytes  = 16 << 20
	largestScore  = 10
	answerTimeout = 10 * time.Second
	head          = "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: %d\r\n" +
		"Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
)

type hostPriority struct {
	Host  string
	Score int64
}

type connection struct {
	net.Conn
	reader *bufio.Reader
}

type result struct {
	Requests        int     `json:"requests"`
	AllRequests     int     `json:"all_requests"`
	RequestsPerS    float64 `json:"requests_per_s"`
	P50Ms           float64 `json:"p50_ms"`
	P99Ms           float64 `json:"p99_ms"`
	P999Ms          float64 `json:"p999_ms"`
	MaxMs           float64 `json:"max_ms"`
	FirstMs         float64 `json:"first_ms"`
	DistinctAnswers int     `json:"distinct_answers"`
}

func main() {
	address := flag.String("address", "127.0.0.1:8888", "host and port of the extender")
	path := flag.String("path", "/scheduler/prioritize", "path of the verb")
	file := flag.String("requests", "", "file with one body a line")
	names := flag.Int("names", 0, "nodes that every answer must have")
	connections := flag.Int("connections", 1, "connections that send at the same time")
	warmUp := flag.Duration("warm-up", time.Second, "time before the measurement")
	duration := flag.Duration("duration", 5*time.Second, "time of the measurement")
	flag.Parse()

	requests := readRequests(*file, *path, *address)
	opened := make([]*connection, *connections)
	for number := range opened {
		opened[number] = open(*address)
	}
	found := result{}
	found.FirstMs, found.DistinctAnswers = check(opened[0], requests, *names)
	warming := len(load(opened, requests, *warmUp))
	beganAt := time.Now()
	latencies := load(opened, requests, *duration)
	found.Requests = len(latencies)
	found.AllRequests = len(latencies) + warming + len(requests)
	found.RequestsPerS = float64(len(latencies)) / time.Since(beganAt).Seconds()
	slices.Sort(latencies)
	found.P50Ms, found.P99Ms, found.P999Ms = percentile(latencies, 0.5), percentile(latencies, 0.99), percentile(latencies, 0.999)
	found.MaxMs = percentile(latencies, 1)
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

// readRequests returns the whole requests, so that nothing is encoded during the measurement.
func readRequests(file, path, address string) [][]byte {
	content, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var requests [][]byte
	for _, body := range bytes.Split(bytes.TrimSpace(content), []byte("\n")) {
		requests = append(requests, append(fmt.Appendf(nil, head, path, address, len(body)), body...))
	}
	return requests
}

func open(address string) *connection {
	made, err := net.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	return &connection{made, bufio.NewReaderSize(made, 1<<16)}
}

// send writes a request and reads the whole answer into the buffer.
func (c *connection) send(request []byte, into *bytes.Buffer) {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Write(request); err != nil {
		log.Fatal(err)
	}
	answer, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		log.Fatal(err)
	}
	into.Reset()
	if _, err := into.ReadFrom(io.LimitReader(answer.Body, maxBodyBytes)); err != nil {
		log.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		log.Fatalf("status %d: %s", answer.StatusCode, into.String())
	}
}

// check sends every request once and checks every answer. It returns the time of the slowest of these answers in milliseconds, which are
// the first for their demand, and the number of different answers.
func check(c *connection, requests [][]byte, names int) (float64, int) {
	var body bytes.Buffer
	slowest, different := time.Duration(0), map[string]bool{}
	for _, request := range requests {
		sentAt := time.Now()
		c.send(request, &body)
		slowest = max(slowest, time.Since(sentAt))
		var list []hostPriority
		if err := json.Unmarshal(body.Bytes(), &list); err != nil {
			log.Fatalf("the answer is not a HostPriorityList: %v", err)
		}
		hosts := map[string]bool{}
		for _, entry := range list {
			if entry.Score < 0 || entry.Score > largestScore {
				log.Fatalf("%s has the score %d", entry.Host, entry.Score)
			}
			hosts[entry.Host] = true
		}
		if len(hosts) != names {
			log.Fatalf("the answer has %d nodes, and %d were sent", len(hosts), names)
		}
		different[body.String()] = true
	}
	return milliseconds(slowest), len(different)
}

// load sends requests for some time over all connections and returns the latencies.
func load(connections []*connection, requests [][]byte, duration time.Duration) []time.Duration {
	endAt := time.Now().Add(duration)
	found := make([][]time.Duration, len(connections))
	var running sync.WaitGroup
	for number, one := range connections {
		running.Go(func() { found[number] = loadOne(one, requests, number, endAt) })
	}
	running.Wait()
	return slices.Concat(found...)
}

func loadOne(c *connection, requests [][]byte, first int, endAt time.Time) []time.Duration {
	var body bytes.Buffer
	latencies := make([]time.Duration, 0, 1<<17)
	for next := first; ; next++ {
		sentAt := time.Now()
		if sentAt.After(endAt) {
			return latencies
		}
		c.send(requests[next%len(requests)], &body)
		latencies = append(latencies, time.Since(sentAt))
	}
}

// percentile returns the smallest measured value that at least this share of the values does not exceed.
func percentile(sorted []time.Duration, share float64) float64 {
	return milliseconds(sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)])
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration.Microseconds()) / 1000
}
