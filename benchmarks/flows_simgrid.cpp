/* Flows over shared links in SimGrid, by its own C++ interface: the oracle of the simulator's flow model, and its rival.
 *
 *   flows_simgrid < PROBLEM
 *
 * PROBLEM is text: the number of links and the bytes a second of each; the number of sources and for each the number of its
 * links and these; the same of sinks; the number of flows and for each its begin in seconds, its source, its sink and its
 * bytes. A flow goes through the links of its source and then through those of its sink. The program prints the processor seconds
 * of building the platform and of the simulation, the peak of its memory in MiB, and then the moment at which each flow ended.
 *
 * The network is a fluid with max-min fair links and nothing else: no latency, no window of TCP, no acknowledgements.
 */
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace s4u = simgrid::s4u;

struct Flow {
  double begin;
  size_t source;
  size_t sink;
  uint64_t bytes;
};

template <typename Value> static Value next(const char* format)
{
  Value value;
  if (std::scanf(format, &value) != 1) {
    std::fprintf(stderr, "error: the problem ends too soon, or a number is missing\n");
    std::exit(1);
  }
  return value;
}

static size_t next_count()
{
  return next<size_t>("%zu");
}

/* Processor time of this program, so that other work on the machine does not count. */
static double worked_seconds()
{
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

using Routes = std::vector<std::vector<size_t>>;

static Routes next_routes()
{
  Routes routes(next_count());
  for (auto& route : routes) {
    route.resize(next_count());
    for (auto& link : route)
      link = next_count();
  }
  return routes;
}

static std::vector<s4u::LinkInRoute> links_of(const std::vector<size_t>& route, const std::vector<s4u::Link*>& links)
{
  std::vector<s4u::LinkInRoute> found;
  for (size_t link : route)
    found.emplace_back(links[link]);
  return found;
}

/* Hosts of a star: each has one route to or from the middle. */
static std::vector<s4u::Host*> hosts_of(s4u::NetZone* zone, const char* name, const Routes& routes,
                                        const std::vector<s4u::Link*>& links, bool is_source)
{
  std::vector<s4u::Host*> hosts;
  for (const auto& route : routes) {
    auto* host = zone->create_host(name + std::to_string(hosts.size()), 1e9);
    auto* point = host->get_netpoint();
    zone->add_route(is_source ? point : nullptr, is_source ? nullptr : point, nullptr, nullptr, links_of(route, links),
                    false);
    hosts.push_back(host);
  }
  return hosts;
}

int main(int argc, char** argv)
{
  s4u::Engine engine(&argc, argv);
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/crosstraffic:no");
  s4u::Engine::set_config("network/TCP-gamma:0");

  std::vector<double> rates(next_count());
  for (auto& rate : rates)
    rate = next<double>("%lf");
  Routes sources = next_routes();
  Routes sinks   = next_routes();
  std::vector<Flow> flows(next_count());
  for (auto& flow : flows) {
    flow.begin  = next<double>("%lf");
    flow.source = next_count();
    flow.sink   = next_count();
    flow.bytes  = next<uint64_t>("%lu");
  }

  double begin = worked_seconds();
  auto* zone = s4u::create_star_zone("flows");
  std::vector<s4u::Link*> links;
  for (double rate : rates)
    links.push_back(zone->create_link("link" + std::to_string(links.size()), rate)->seal());
  auto from = hosts_of(zone, "source", sources, links, true);
  auto to   = hosts_of(zone, "sink", sinks, links, false);
  zone->seal();
  double built = worked_seconds() - begin;

  std::vector<s4u::CommPtr> transfers(flows.size());
  s4u::Actor::create("starter", from[0], [&flows, &from, &to, &transfers]() {
    for (size_t number = 0; number < flows.size(); number++) {
      const auto& flow = flows[number];
      if (flow.begin > s4u::Engine::get_clock())
        s4u::this_actor::sleep_until(flow.begin);
      transfers[number] = s4u::Comm::sendto_async(from[flow.source], to[flow.sink], flow.bytes);
    }
    for (const auto& transfer : transfers)
      transfer->wait();
  });
  begin = worked_seconds();
  engine.run();
  double ran = worked_seconds() - begin;

  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%.6f %.6f %.1f\n", built, ran, usage.ru_maxrss / 1024.0);
  for (const auto& transfer : transfers)
    std::printf("%.9f\n", transfer->get_finish_time());
  return 0;
}
