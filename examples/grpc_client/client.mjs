// Ask a search server from Node.
//
//     onhand serve --grpc                                  # in a directory with documents
//     cd examples/grpc_client && npm install
//     node client.mjs "dock sensors" [127.0.0.1:50051]
//
// $ONHAND_EXAMPLE_TOKEN is the token, if the server wants one.
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [query, address = "127.0.0.1:50051"] = process.argv.slice(2);
const contract = fileURLToPath(new URL("../../proto/onhand/search/v1/search.proto", import.meta.url));
const { search } = grpc.loadPackageDefinition(loader.loadSync(contract, { keepCase: true, longs: Number }));
const client = new search.v1.SearchService(address, grpc.credentials.createInsecure());

const metadata = new grpc.Metadata();
if (process.env.ONHAND_EXAMPLE_TOKEN) metadata.set("authorization", `Bearer ${process.env.ONHAND_EXAMPLE_TOKEN}`);

const call = (method, request) =>
  new Promise((resolve, reject) =>
    client[method](request, metadata, { deadline: Date.now() + 30_000 }, (error, answer) =>
      error ? reject(error) : resolve(answer),
    ),
  );

const found = await call("KeywordSearch", { query, limit: 3 });
for (const hit of found.hits) console.log(`${hit.exact_score.toFixed(4)} ${hit.document_id}: ${hit.title}`);
if (found.hits.length > 0) {
  const { document } = await call("GetDocument", { document_id: found.hits[0].document_id });
  console.log(`${[...document.text].length} characters in the first`);
}
await call("KeywordSearch", {}).catch((error) => console.log(`refused: ${error.details}`));
const answers = await Promise.all([call("KeywordSearch", { query }), call("FusedSearch", { query })]);
console.log(`${answers[0].hits.length} by words, ${answers[1].hits.length} fused`);
for (const note of answers[1].notes) console.log(`note: ${note}`);
client.close();
