#include "gpurun/graph.cuh"

#include <vector>

#include "gpurun/error.cuh"
#include "gpurun/protocol.h"

namespace gpurun {
namespace {

/// What the runtime says to a call that a capture forbids.
bool breaks_capture(cudaError_t e) {
  return (e >= cudaErrorStreamCaptureUnsupported && e <= cudaErrorStreamCaptureWrongThread) ||
         e == cudaErrorNotPermitted;
}

/// Fork and join, or several beginnings: the launcher has used other streams, even if it brought them back. Edges
/// of programmatic launches are the exception: they may skip a node.
bool is_chain(cudaGraph_t graph, size_t nodes) {
  size_t n = 0;
#if CUDART_VERSION >= 13000
  check(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &n), "graph edges");
  std::vector<cudaGraphNode_t> from(n), to(n);
  std::vector<cudaGraphEdgeData> data(n);
  if (n) check(cudaGraphGetEdges(graph, from.data(), to.data(), data.data(), &n), "graph edges");
  for (const cudaGraphEdgeData& d : data)
    if (d.type != cudaGraphDependencyTypeDefault) return true;
#else
  if (cudaGraphGetEdges(graph, nullptr, nullptr, &n) != cudaSuccess) return cudaGetLastError(), true;
  std::vector<cudaGraphNode_t> from(n), to(n);
  if (n && cudaGraphGetEdges(graph, from.data(), to.data(), &n) != cudaSuccess) return cudaGetLastError(), true;
#endif
  if (n != nodes - 1) return false;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < i; ++j)
      if (from[i] == from[j] || to[i] == to[j]) return false;
  return true;
}

KernelFacts judge_nodes(cudaGraph_t graph, cudaError_t pending) {
  size_t n = 0;
  check(cudaGraphGetNodes(graph, nullptr, &n), "graph nodes");
  std::vector<cudaGraphNode_t> nodes(n);
  if (n) check(cudaGraphGetNodes(graph, nodes.data(), &n), "graph nodes");
  KernelFacts facts;
  double most = -1;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    check(cudaGraphNodeGetType(node, &type), "node type");
    if (type == cudaGraphNodeTypeMemset) continue;
    if (type != cudaGraphNodeTypeKernel) refuse(RUN_FAILED, RUN_FORBIDDEN_NODE, "a node of type %d", (int)type);
    cudaLaunchAttributeValue value = {};
    if (cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributeAccessPolicyWindow, &value) != cudaSuccess)
      (void)cudaGetLastError();
    else if (value.accessPolicyWindow.num_bytes > 0)
      refuse(RUN_FAILED, RUN_FORBIDDEN_NODE, "an access policy window of %zu bytes",
             value.accessPolicyWindow.num_bytes);
    ++facts.kernels;
    cudaKernelNodeParams p = {};
    cudaFuncAttributes a = {};
    if (cudaGraphKernelNodeGetParams(node, &p) != cudaSuccess || cudaFuncGetAttributes(&a, p.func) != cudaSuccess) {
      (void)cudaGetLastError();
      continue;
    }
    const int threads = (int)(p.blockDim.x * p.blockDim.y * p.blockDim.z);
    const double all = (double)threads * p.gridDim.x * p.gridDim.y * p.gridDim.z;
    if (all > most) {
      most = all;
      facts.threads = threads;
      facts.registers = a.numRegs;
      facts.smem_bytes = (int)(a.sharedSizeBytes + p.sharedMemBytes);
    }
    if ((int)a.localSizeBytes > facts.local_bytes) facts.local_bytes = (int)a.localSizeBytes;
  }
  if (!facts.kernels) refuse(RUN_FAILED, RUN_NO_WORK, "no kernel among %zu nodes (%s)", n, cudaGetErrorName(pending));
  if (!is_chain(graph, n)) refuse(RUN_FAILED, RUN_LEFT_STREAM, "%zu nodes that are not one chain", n);
  return facts;
}

/// Gives back what capture holds, whatever way it is left.
struct Capture {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  ~Capture() {
    if (graph) cudaGraphDestroy(graph);
    if (stream) cudaStreamDestroy(stream);
  }
};

}  // namespace

Graph::~Graph() {
  if (exec_) cudaGraphExecDestroy(exec_);
}

Graph& Graph::operator=(Graph&& o) noexcept {
  if (this != &o) {
    if (exec_) cudaGraphExecDestroy(exec_);
    exec_ = o.exec_;
    facts_ = o.facts_;
    o.exec_ = nullptr;
  }
  return *this;
}

bool Graph::capture(const std::function<cudaError_t(cudaStream_t)>& launch, const std::function<bool()>& strayed) {
  *this = Graph();
  Capture c;
  // Blocking and of its own: work on the legacy stream breaks the capture, and no attribute that a launcher sets on
  // the stream reaches the next candidate.
  check(cudaStreamCreate(&c.stream), "capture stream");
  check(cudaStreamBeginCapture(c.stream, cudaStreamCaptureModeGlobal), "begin capture");
  const cudaError_t returned = launch(c.stream);
  const cudaError_t ended = cudaStreamEndCapture(c.stream, &c.graph);
  const cudaError_t pending = cudaGetLastError();
  // What ran outside the capture has to end before its buffers are touched, and its errors are the launcher's.
  check_run(cudaDeviceSynchronize());
  if (breaks_capture(returned)) refuse(RUN_FAILED, RUN_LEFT_STREAM, "%s", cudaGetErrorName(returned));
  if (returned == cudaErrorNotSupported) return false;
  if (returned != cudaSuccess) refuse(RUN_LAUNCH_ERROR, REASON_NONE, "%s", cudaGetErrorName(returned));
  if (ended != cudaSuccess || !c.graph)
    refuse(RUN_FAILED, RUN_LEFT_STREAM, "%s", cudaGetErrorName(ended != cudaSuccess ? ended : pending));
  if (strayed && strayed()) refuse(RUN_FAILED, RUN_LEFT_STREAM, "memory changed while nothing was to run");
  const KernelFacts facts = judge_nodes(c.graph, pending);
  const cudaError_t made = cudaGraphInstantiate(&exec_, c.graph, 0);
  if (made != cudaSuccess) {
    exec_ = nullptr;
    (void)cudaGetLastError();
    if (made == cudaErrorMemoryAllocation) check(made, "instantiate");
    refuse(RUN_LAUNCH_ERROR, REASON_NONE, "%s", cudaGetErrorName(made));
  }
  check(cudaGraphUpload(exec_, c.stream), "upload graph");
  check(cudaStreamSynchronize(c.stream), "upload graph");
  facts_ = facts;
  return true;
}

void Graph::launch(cudaStream_t s) const {
  const cudaError_t e = cudaGraphLaunch(exec_, s);
  if (e == cudaSuccess) return;
  (void)cudaGetLastError();
  check_run(cudaDeviceSynchronize());  // a fault of the device, rather than a launch refused, stays
  if (e == cudaErrorMemoryAllocation) check(e, "launch");
  refuse(RUN_LAUNCH_ERROR, REASON_NONE, "%s", cudaGetErrorName(e));
}

}  // namespace gpurun
