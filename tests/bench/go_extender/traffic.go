// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: onprem.kube_scheduling contributors

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// query has the parts that the plugin means: device, range and name of the node. The plugin itself mixes up their order.
const query = `sum_over_time(node_network_receive_bytes_total{device="%s"}[5m]) ` +
	`* on(instance) group_left(nodename) (node_uname_info{nodename="%s"})`

// traffic scores nodes by the bytes that their network devices have received.
type traffic struct {
	url         string
	device      string
	parallelism int
	client      *http.Client
}

func newTraffic(prometheus, device string, parallelism int) *traffic {
	transport := &http.Transport{MaxIdleConnsPerHost: parallelism}
	return &traffic{prometheus + "/api/v1/query", device, parallelism, &http.Client{Transport: transport, Timeout: 10 * time.Second}}
}

// scores is the formula of the plugin, 100 - value*100/max, as the 0 to 10 of an extender.
func (t *traffic) scores(names []string) ([]int64, error) {
	values, failures := make([]float64, len(names)), make([]error, len(names))
	indexes := make(chan int)
	var workers sync.WaitGroup
	for range t.parallelism {
		workers.Go(func() {
			for index := range indexes {
				values[index], failures[index] = t.value(names[index])
			}
		})
	}
	for index := range names {
		indexes <- index
	}
	close(indexes)
	workers.Wait()
	largest := 0.0
	for index := range names {
		if failures[index] != nil {
			return nil, failures[index]
		}
		largest = max(largest, values[index])
	}
	scores := make([]int64, len(names))
	for index, value := range values {
		if largest > 0 {
			scores[index] = int64((100 - value*100/largest) * float64(extenderv1.MaxExtenderPriority) / 100)
		}
	}
	return scores, nil
}

func (t *traffic) value(node string) (float64, error) {
	response, err := t.client.Get(t.url + "?query=" + url.QueryEscape(fmt.Sprintf(query, t.device, node)))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Value []any }
		}
		Error string
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if len(answer.Data.Result) != 1 || len(answer.Data.Result[0].Value) != 2 {
		return 0, fmt.Errorf("%s: %d series instead of 1 %s", node, len(answer.Data.Result), answer.Error)
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	return strconv.ParseFloat(text, 64)
}
