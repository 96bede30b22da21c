// What does k6 ask of the gRPC door? One method, again and again; grpc_load.py says which, with what and for how long.
import grpc from 'k6/net/grpc';
import { check } from 'k6';
import { scenario } from 'k6/execution';

const client = new grpc.Client();
client.load([__ENV.PROTO], 'search.proto');
const requests = JSON.parse(open(__ENV.REQUESTS));

export const options = { summaryTrendStats: ['med', 'p(99)', 'count'], noUsageReport: true };

export default function () {
  if (__ITER === 0) client.connect(__ENV.ADDRESS, { plaintext: true });
  const answer = client.invoke(__ENV.METHOD, requests[scenario.iterationInTest % requests.length]);
  check(answer, { OK: (it) => it.status === grpc.StatusOK });
}

export function handleSummary(data) {
  const { med, 'p(99)': p99, count } = data.metrics.grpc_req_duration.values;
  const seconds = data.state.testRunDurationMs / 1000;
  const { fails: failed } = data.metrics.checks.values;
  return { stdout: JSON.stringify({ calls: count, rate: count / seconds, p50: med, p99, failed }) };
}
