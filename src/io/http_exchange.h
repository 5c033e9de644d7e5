// One request on its way: what curl is told about it and what has come back. Of http_client.cc.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "io/http_client.h"
#include "io/stop.h"

namespace pitcrew::io {

// The sockets of a client's connections. Of its I/O thread.
class Sockets {
 public:
  void Add(curl_socket_t socket) { open_.insert(socket); }
  void Close(curl_socket_t socket);
  // Ends the connection with this port at our end; curl then sees its end.
  void Shut(int local_port);

 private:
  std::set<curl_socket_t> open_;
};

struct Exchange {
  HttpRequest request;
  StopToken stop;
  bool streaming = false;

  // Of the I/O thread.
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
  curl_slist* connect_to = nullptr;
  char message[CURL_ERROR_SIZE] = {};
  std::chrono::steady_clock::time_point started;
  std::chrono::steady_clock::time_point last_byte;
  std::chrono::steady_clock::time_point nudged;
  int local_port = 0;  // of the connection that it is on; 0: none yet
  bool too_slow = false;
  HttpResponse incoming;

  // Shared with the caller.
  std::mutex mutex;
  std::condition_variable changed;
  HttpResponse response;
  std::string chunk;  // arrived, not yet taken
  bool head_ready = false;
  bool done = false;
  std::optional<base::Error> error;

  ~Exchange() {
    curl_slist_free_all(headers);
    curl_slist_free_all(connect_to);
    if (handle != nullptr) curl_easy_cleanup(handle);
  }
};

// Makes the exchange's curl handle; false when the URL cannot be understood.
bool ConfigureExchange(Exchange& exchange, Sockets& sockets);

// What curl's result means for a caller.
base::Error ErrorFromCurl(CURLcode code, const Exchange& exchange);

}  // namespace pitcrew::io
