"""Which promises does onhand make, and which test shows each?

A line is `id  seed  what can be observed`. A test that shows a promise carries `@requirement("id")`;
tests/test_requirements.py fails when a built promise has no test, or a test names a promise that is not built.
To build a promise of a later part, move its line up into BUILT together with its test.
"""
# ruff: noqa: E501  (one promise is one line)

from typing import NamedTuple

import pytest

requirement = pytest.mark.requirement


class Promise(NamedTuple):
    """One observable behaviour, where it was asked for, and the part that brings it ("" once it is built)."""

    id: str
    seed: str  # 000-004: the founding documents; "own": added by the product's design
    text: str
    later: str = ""


BUILT = """
project.demo-tells-the-story own The demo shows context, documents, rules, skills, notes, tools, plans, the cache and tokens saved.
project.fresh-machine own The demo and test commands need only Python and make, and set themselves up once.
project.old-python-is-refused own A Python older than 3.11 is refused with the version that is needed and how to choose another.
project.base-install-is-light own The base install needs only the packages that every use needs; the rest are extras.
project.extras-exist own The extras semantic, gguf, mcp, grpc, acp, console and actions exist, and all is their union.
project.missing-extra-names-its-command own A feature whose extra is missing says so with the command that installs it.
project.layers-point-one-way own Imports follow the layer contract, and every package is in it.
project.ci-runs-tests-and-checks own The gate for a change runs the test command and then the static checks.
project.documents-hold-together own Every link between the repository's documents resolves, and the README names the two commands.
project.reference-is-current own The generated reference pages equal what the code would generate now.
project.decisions-are-written own Each choice that would be expensive to reverse has a page in docs/adr.
project.promises-are-shown own Every built promise is carried by a test, and no test names one that is not built.
project.typed own The package ships its types and the public names are importable from it.
project.opened-once own A process opens each part of a project at most once, when it is first used.
project.cold-path-is-light own Nothing heavy is imported on the way to --help or to a lexical search.
project.cold-start-is-measured own The cold-start benchmark prints our CPU time beside plain Python's, as a ratio.
cli.output-is-written-or-fails own A standard output that is closed or full gives one line and a failing exit code; a reader that has read enough does not.
project.names-are-durable own A directory is synced after a name in it changed, and one that cannot be synced is an error.
project.leftovers-are-swept own Temporary files of killed writers are deleted, and never those of a living one.
project.sample-project-is-real own The sample project's pages, links, judged answers, rules and skills are as described, and its scripts run.

config.three-files 003 The nearest onhand.toml, .onhand/config.toml or [tool.onhand] is found from the directory upwards.
config.search-ends-at-home 003 The search upwards stops below the home directory.
config.defaults 003 Without any configuration every setting has its default.
config.precedence 003 Defaults give way to the user's file, then the project's, then the environment, then flags.
config.typed 003 A value of the wrong type or out of range is refused with the key, the value and what is allowed.
config.did-you-mean 003 An unknown key is refused, naming the nearest valid one.
config.broken-files 003 A file that cannot be parsed is refused with its path and line.
config.all-problems-at-once 003 The problems of every source are reported at once.
config.odd-files-never-hang 003 Huge, special, looping and dangling configuration files are reported and never hang.
config.secrets-by-name-only 003 A secret is given only as the name of a variable; a secret in a file is refused and not repeated.
config.secrets-are-never-shown 003 No secret's value appears in config show, errors or logs.
config.show-tells-origins 003 config show prints every value and where it came from; --json does the same.
config.init-writes-commented-file 003 init writes a commented file that loads, and does not overwrite an existing one.
config.one-table 003 Every setting is typed, described and has one documented ONHAND_ variable.
config.unknown-variables-warn 003 An unknown ONHAND_ variable is warned of, naming the nearest.
config.cold-start own Without a configuration, nothing heavy is imported.
config.no-secrets own No path or name in a project's configuration, and no link, makes a corpus read a file with a sensitive name.

trust.paths-are-held-back 003 A path in a project file that leaves the project has no effect before trust.
trust.programs-are-held-back 003 Before trust, nothing in a clone starts a program or uses a secret.
trust.for-one-directory 003 Trust holds for one directory alone and not for those inside or beside it.
trust.said-once 003 Trust is given once, after showing what it allows, and can be revoked.
trust.of-content own What was trusted stays in force, whatever happens to the files, until the new content is trusted too.
trust.not-what-everyone-can-write own A settings or server file that everyone can change is reported and not trusted.
trust.limits-are-kept own Before trust, a project file adds to what the user forbids and neither takes away nor raises a limit.
trust.own-words-need-none own What the user's own file, variables and flags say needs no trust.
trust.corrupt-store-trusts-nothing own A damaged record of trusted directories is reported and trusts nothing.
trust.store-is-private own Only its owner can read the record of trusted directories.
trust.concurrent own Directories that are trusted at the same moment are all kept.
trust.nothing-planted own What others put above the working directory, or in place of a home, is not taken for the user's own.

lexical.bm25-formula 000 BM25 with k1 1.5 and b 0.75 gives the published golden numbers.
lexical.bm25-plus-formula 004 BM25+ with k1 1.2, b 0.75 and delta 1.0 gives the published golden numbers.
lexical.weighted-fields 004 A field's weight multiplies its terms, and the explanation names the field.
lexical.incremental own Adding, replacing and removing documents gives the same index as building it again.
lexical.query-terms-count-once own A word that is repeated in a query counts once.
lexical.long-queries-tell-by-repeating own In a query as long as a text, a repeated word counts more, up to the number of its occurrences.
lexical.title-counts-twice own A word of the title counts in the whole and by itself, so that no repetition in the text outdoes it.
lexical.query-repeats-optional 000 The original counting of repeated query words is available as an option.
lexical.plain-tokenizer 000 The plain tokenizer lower-cases, splits at all but a-z0-9, drops 30 stop words and single letters.
lexical.identifier-boundaries 004 Acronym, camelCase and digit boundaries split a word; marks are dropped after NFKD.
lexical.joined-and-split own readFile, read_file and read file find each other; so do GitHub and github, DEC-0054 and dec 0054.
lexical.scripts own Cyrillic, Arabic, Greek and emoji are searchable; Chinese, Japanese and Korean by bigrams.
lexical.stems-stand-beside own Light stemming, where chosen, adds a form beside the original word and never replaces it.
lexical.length-normalised 000 A long section does not win by being long, and the tenth occurrence adds less than the second.
lexical.rare-terms-weigh-more 000 A rarer query term contributes more than a common one.
lexical.no-match-is-empty 000 A query that shares no term, an empty query and an empty index give no hits and no error.
lexical.only-positive-scores 000 Only sections with a score above zero are hits.
lexical.deterministic-order 004 Hits come by score descending, then by id, whatever the order of insertion.
lexical.limit 000 A search returns at most the requested number of hits, the best ones.
lexical.hits-explain-themselves 000 A hit names its matched terms, fields and contributions, which add up to its score.
lexical.snippet-best-window 001 A snippet is the window of the text with the best matches.
lexical.snippet-boundaries 001 A snippet is cut at word and character boundaries, keeps its length limit and marks what it cut.
lexical.snippet-is-plain 001 A snippet never carries raw HTML.
lexical.first-query-sorts-nothing own A first query looks through a small corpus and scores to the last bit as a sorted one does.
lexical.no-numpy-needed own Importing and searching need no numpy; where it speeds up large corpora the results are the same.
lexical.hostile-text-is-bounded own Huge, binary, NUL, surrogate and combining-mark inputs neither crash nor take unbounded time.
lexical.no-query-is-syntax own Operators, quotes and wildcards in a query are plain text.

markdown.sections-by-heading 000 A page is split at its headings, each section with its heading line in its text.
markdown.intro 000 The text before the first heading is a section named (intro), unless it is empty.
markdown.empty-sections-are-skipped 000 A section without any text is left out.
markdown.code-is-not-heading own A # line in fenced or indented code starts no section.
markdown.setext-headings own Underlined headings start sections too.
markdown.closing-hashes own Trailing hashes and inline markup are not part of a heading's name.
markdown.html-comments-are-skipped own A heading or link inside an HTML comment does not exist.
markdown.heading-path own A section knows its headings from the outermost to its own.
markdown.line-range own A section knows its first and last line in the file, front matter counted.
markdown.long-sections-split own A section that is too long to be useful is split between paragraphs and keeps its heading.
markdown.code-stays-whole own A fence of code is cut only when it alone is too long.
markdown.crlf-and-bom own CRLF, CR, BOM and a missing last newline change no section, link or line number.
markdown.sections-lose-nothing own Sections in order hold every non-blank line of the page's body, once.
markdown.front-matter own YAML between --- lines at the very top is read and is not part of any section.
markdown.front-matter-values own Block scalars, quoted values, lists, CRLF and BOM are read as YAML specifies.
markdown.front-matter-is-safe own Aliases, tags, bombs and excess size or depth are refused with a reason; the page is still read.
markdown.links 003 Inline links are found with display text, target and line number in the file.
markdown.link-extensions 003 Links can be narrowed to extensions, whatever the case, anchor or query.
markdown.external-links 003 http, https, mailto and protocol-relative links are external and are left out unless asked for.
markdown.link-anchors-and-titles own Anchors are separated from the path; titles, angle brackets and nested parentheses are read.
markdown.reference-links own Full, collapsed and shortcut reference links resolve to their definitions.
markdown.links-in-code-are-skipped own Links in code spans, fences and indented code are ignored.
markdown.images-are-no-links own Images are left out; a link around an image is a link.
markdown.hostile-pages-are-bounded own Deep brackets, unclosed fences and huge lines take time in proportion to their size.
markdown.cheap-to-import own Reading sections and simple front matter imports no YAML.

tools.tool-parts 000 A tool has a name, description, input schema, read-only hint, output cap and a handler, sync or async.
tools.names-are-checked own A tool name that providers would refuse is refused on definition with the rule.
tools.from-typed-function 003 A typed function becomes a tool: its name, docstring and parameters give name, description, schema.
tools.from-model 003 A pydantic model, dataclass or TypedDict becomes a JSON Schema.
tools.schema-required 003 A parameter without a default is required, one with a default is not and the default is kept.
tools.schema-nested 003 Nested objects, arrays, unions, literals, enums and optionals keep their structure.
tools.schema-of-recursive-types own A class that contains itself is referred to within the schema.
tools.handlers-get-built-values 003 A handler gets instances, enum members and dates, not raw JSON.
tools.schema-descriptions 003 Descriptions of parameters reach the schema.
tools.schema-unknown-type-is-refused 003 A type without a JSON form is refused on definition, naming the parameter.
tools.schemas-fetch-nothing own A schema that refers outside itself is refused; nothing is fetched.
tools.hostile-schemas-are-bounded own Deep, huge, recursive and explosive schemas are refused or run in bounded time.
tools.duplicate-is-refused 000 A second tool of the same name is refused: duplicate tool: NAME.
tools.wire-leaks-nothing own What the model sees of a tool carries no private field such as the output cap or the handler.
tools.wire-is-byte-stable own What the model sees is byte-equal for the same tools, in whatever order they were registered.
tools.unknown-tool-is-answered 000 A tool that does not exist is an error result: unknown tool: NAME, with the nearest name.
tools.arguments-are-checked 003 Arguments that do not fit the schema never reach the handler.
tools.missing-argument-is-named 003 A missing or wrong argument is named together with what is expected.
tools.all-problems-at-once own All problems of a call, up to a few, are reported at once.
tools.values-are-never-echoed-whole own A wrong value is quoted shortly, however large it is.
tools.arguments-may-be-json-text own Arguments given as JSON text are read like an object.
tools.bad-json-is-explained own Arguments that are not a JSON object are answered with what is wrong and where.
tools.unknown-arguments-are-refused own An unknown argument is refused with the nearest known one.
tools.results-stand-in-call-order 000 The calls of one turn run at the same time; results come in call order with their call ids.
tools.failures-are-isolated 000 A handler that raises gives an error result to its own call and harms no other.
tools.a-slow-call-times-out own A call beyond its tool's timeout ends with an error that says so, and the others finish.
tools.a-hung-handler-does-not-block-exit own A handler that never returns does not keep the process from ending.
tools.concurrency-limit own No more short calls run at once than the limit allows.
tools.writes-exclude-per-resource own A call waits for earlier calls that write what it uses, or use what it writes, and for no others.
tools.turns-stay-in-order own In one turn reads run side by side, any other call runs alone, and a read sees what an earlier call wrote.
tools.long-calls-let-others-read own While a command runs, other callers read what it may write; only who writes the same waits for it.
tools.waiting-is-explained own A waiting call says what it waits for, gives up in time, and its own time limit begins when it runs.
tools.sub-agents-share-resources own Calls of sub-agents and of every registry of a project wait for each other, and never for good.
tools.tools-may-call-tools own A handler may dispatch other tools without locking itself out.
tools.output-is-capped-at-a-character 000 Output beyond the cap is cut at a character and ends with how many bytes were cut.
tools.structured-output-is-whole-or-absent own JSON output too large for the cap is left out whole, and the text says so.
tools.structured-answers-fit own An answer for programs that is too large is cut to JSON that still fits its schema, and says what is missing.
tools.schema-of-answers own A typed answer is the schema of a tool's structured output: names and types, without words and open to more.
tools.hints own A tool declares whether it only adds, may be repeated and stays on this machine; the defaults are those of MCP.
tools.output-is-safe-to-encode own Output with unpaired surrogates becomes text that can be encoded.
tools.errors-are-capped-too own Error texts keep to the cap too.
tools.error-shows-no-internals own An unexpected exception becomes text for the model without traceback or paths.
tools.cancelling-cancels-handlers own Cancelling a dispatch cancels its calls and leaves the registry usable.
tools.sync-handlers-do-not-block own A synchronous handler does not block the event loop.
tools.fast-from-cold own Importing the tools loads nothing heavy.

embed.contract own Every embedder passes one contract suite: name, dimension, embed for query, document and similarity.
embed.in-process 003 Embeddings are computed in process, without a daemon.
embed.integers own Where the processor multiplies 8-bit integers fast, the packaged model does, under a name of its own; a vector depends on its text alone.
embed.gguf 003 A GGUF model such as embeddinggemma-300M Q8_0 at 256 dimensions is loaded from a hub or a path.
embed.truncate-then-normalise own A shortened vector is normalised again, and the task prompts of the model are applied.
embed.http-endpoint own An OpenAI-compatible endpoint can embed; its failures are typed errors.
embed.top-similar 003 find_top_similar gives the closest of a map of vectors, up to a limit.
embed.weights-are-checked own Packaged weights are verified by hash before use.
embed.chosen-by-name own An embedder is chosen by name; auto takes the packaged model, or none with the command that installs it; the twin is never automatic.
embed.models-by-name own A known model is chosen by name, and its pinned file is downloaded, resumed and verified, or taken from a path.

context.directory 000 Context lives in .AGENTS/ at the project's root; the name is configurable.
context.more-roots own Other roots such as docs/ can be added, recursively, as searchable.
context.pinned-by-default 000 overview.md and conventions.md are pinned, in that order.
context.pinned-by-config own A list in the configuration replaces the default pinned names; a missing name is reported.
context.pinned-by-front-matter own A file with pinned: true in its front matter is pinned after the named ones.
context.pinned-rendered 000 Pinned files are rendered as <context path> blocks joined by a blank line, byte-stable.
context.pinned-budget 000 Pinned text keeps to 32 KiB; a file that does not fit ends with how many bytes were cut.
context.pinned-report 000 Each pinned file reports its size and whether and how much it was cut.
context.pinned-drops-nothing-silently own A file left out is reported, and later files are still tried.
context.everything-else-searchable 000 Every other Markdown file, recursively, is searchable by section and is not in the prompt.
context.pinned-is-not-searched 000 Pinned text is not found again by search.
context.tool-schema 000 context_search takes query, required, and k; its description sends the model to it for project detail.
context.tool-cap 000 The tool's output is capped at 16 KiB and says how much was cut.
context.k-defaults-to-three 000 k is how many sections come back; without a usable one it is 3.
context.query-is-required 000 A blank query is the error: query is required.
context.miss-is-a-result 000 A search without a match is an ordinary result: no matching context for: QUERY.
context.blocks 000 Each hit is a <context path section score> block with the section's text, score to two decimals.
context.blocks-cannot-be-forged own No path, heading or text can close a block, open another or add an attribute.
context.manifest-lists-headings 000 The manifest lists the searchable files with their section headings and says when to search.
context.manifest-frames-search 000 The manifest presents search as the fallback for topical detail, not as a step of every turn.
context.manifest-budget 000 The manifest shrinks to its token budget: headings, then files with descriptions, then directories.
context.manifest-empty 000 Without searchable files there is no manifest.
context.manifest-is-stable own The manifest is byte-equal between turns unless a source changed.
context.registered-like-any-tool 000 context_search is a tool in the registry and has no other path into the loop.
context.fresh-edit 000 An edited, new or deleted file is seen by the next search of the same process.
context.fresh-is-cheap own An unchanged file is not read again before a search.
context.hit-knows-lines own A hit carries its path, section, line range, score and matched terms.
context.reason own An empty result says why: no directory, no files, no usable words, or no match.
context.quality own On the judged queries the right section is among the first results at least as often as the floor.
context.missing-directory 000 A missing or empty directory is an empty result with a reason, never an error.
context.unreadable-is-reported own Binary, non-UTF-8, unreadable and oversized files are reported; the rest is searched.
context.stays-in-root own Symlinks out of the root and loops are not followed; nothing outside the root is read.
context.special-files own FIFOs, devices and sockets never block a search.
context.odd-names own Names with newlines, quotes or invalid Unicode are shown escaped and harm nothing.
embed.nothing-is-sent own An embedder in this process sends nothing to anyone: no telemetry, and no identifier in the user's home.
context.warm-start own What was learned of files is kept between runs: unchanged ones are not read again, and nothing depends on it.
context.hybrid-behind-the-tool 000 Ranking becomes hybrid behind context_search; its name, schema and contract stay.
context.python-api own Pinned, manifest, search and tool are reachable from Python in a few lines.

cli.help own --help and --version answer at once and name every command.
cli.usage-error own Wrong usage exits 2 with a message that says what to do; a suggestion where a command is misspelt.
cli.context-show own context show prints what is pinned, its sizes and its budget.
cli.context-manifest own context manifest prints what the system prompt would carry.
cli.context-search own context search prints hits with path, section, lines and score; -k limits them.
cli.context-search-explain own --explain shows each term's contribution to each hit.
cli.context-search-json own --json prints query, hits with lines and terms, what was searched, and the reason.
cli.root own --root works on another directory; one that does not exist exits 2.
cli.miss-exits-zero own A search without a match exits 0 and says why.
cli.plain-when-piped own Colours appear only in a terminal; piped output and NO_COLOR have none.
cli.terminal-is-safe own Control characters of a document never reach the terminal.
cli.json-always-works own Any value is printed as JSON in any locale, lone surrogates included.
cli.broken-pipe-and-interrupt own A closed pipe ends quietly; an interrupt exits 130 without a traceback.
cli.doctor own doctor says what is installed, what is missing and the command that adds it.

store.contract own Every store passes one contract suite: upsert, delete, get, keyword, nearest, scan.
store.memory-twin own The in-memory store and the SQLite store give equal results for equal data.
store.sqlite-by-default 003 Full-text search lives in one SQLite file, given by path, without a server.
store.acknowledged-is-kept own A kill at any moment loses no acknowledged write.
store.many-processes own Many readers and queued writers work at once and none fails.
store.migrations own An older database is migrated; one from a newer version is refused and left untouched.
store.integrity-check own check finds any disagreement of rows, text index and vectors; rebuild repairs it.
disk.power-loss own When the power fails, no acknowledged write to any of our files is lost and none is damaged, whatever was not synced.
store.bad-disk own A corrupt, read-only or full disk gives a typed error, and nothing that was kept is lost.
store.faults-are-told own Every write to a failing, full or lockless disk is durable, or raises a typed error that names the fault, and loses nothing.

search.keyword-layer 001 Keyword search finds literal words, identifiers and proper names, ranked by BM25.
search.raw-queries 001 Callers send plain words; splitting into terms and embedding happen behind the call.
search.keyword-is-never-syntax own No query is a syntax error or an operator.
search.title-weighs-more own A match in the title outranks the same match in the text.
search.same-model 001 A query embedded by another model than the index's is refused with the command that re-embeds.
search.model-is-recorded 001 Model name, dimension and format are recorded with every write and shown by stats.
search.bad-vectors-are-refused own NaN, infinite, zero and wrong-sized vectors are refused.
search.filter-author 001 author matches any of the given authors.
search.filter-tags 001 tags must all be present.
search.filter-scope 001 scope matches any of the given scopes.
search.filter-empty 001 An empty filter constrains nothing.
search.filter-is-shared 001 Keyword, semantic, fused and filter search take the same filter.
search.filter-is-pushed-down 001 A filtered search equals the unfiltered one restricted to the filter, at any selectivity.
search.ties-are-deterministic own Equal scores are ordered by document id.
search.degrades-visibly 003 Without an embedder search answers by words and says so; it never fails or stays silent.
search.filter-dates 001 created_after is inclusive, created_before exclusive; naive and zoned times are understood.
search.filter-unknown-field own An unknown filter field is refused with the nearest known one.
search.known-items own An embedder that finds documents by their titles less well than words do weighs less in fusion.
search.min-score 001 min_score cuts semantic hits below it; default 0.6; zero and none are expressible; the used one is reported.
documents.four-layers-as-tools 001 keyword_search, semantic_search, filter_documents and fused_search are separate tools.
documents.limit 001 limit defaults to 10 and is clamped to 50; zero and negatives are answered with what is allowed.
documents.snippets-only 001 Search results carry bounded snippets without HTML, never bodies.
documents.get-document 001 get_document gives the whole body, or a range of it, by id; an unknown id is a clear error.
documents.hit-fields 001 A hit has document_id, title, snippet, score, author and created_time.
documents.order-by 001 filter_documents is ordered by created_time desc by default, and returns the total.
documents.page-tokens own A page token continues a search and refuses to serve other arguments.
documents.descriptions 001 Each tool's description states what it is good for and poor for, its cost and an example.
documents.descriptions-are-true 001 Descriptions state the counts, authors and dates of the actual corpus.
documents.byte-budget own A response keeps to its byte budget and says what it left out.
documents.dialogue 001 Filter, then semantic search, then get_document finds the mail about the Q3 forecast.
documents.cli own docs import, keyword, semantic, filter, fused, get, delete, stats, check and reembed work with --json.
documents.python-api own open_index gives the Index; Document, Filter and Hit are public.
documents.bad-input own Empty, huge, binary and unpaired input gives a typed error and loses nothing.
search.passages own A document of any length is found by meaning through its best passage, whose place is told.
search.vectors-on-disk own Vectors are searched exactly under any filter and opened without reading them all.
documents.import own JSONL, CSV, Markdown, text, HTML and mail are imported; unchanged ones are skipped; errors are listed.
documents.import-resumes own An interrupted import goes on where it stopped.
documents.import-streams own A file is read bit by bit: a document is handed over before the next is read, with how far it is.
documents.import-is-bounded own Hostile pages, mails and records take time in proportion to their size and cost only themselves.
search.time-spellings own ISO 8601, mail dates and seconds since 1970 are understood; what has no zone counts as UTC.
search.fused 001 Both layers are joined, by reciprocal rank or by score, beside the layers and not instead of them.
search.fused-filter-changes-nothing own Under a filter the default fusion gives the scores and order that it gives without.
search.fused-never-much-worse own The default fusion is never more than a point below the better of its layers.
search.fused-calibrated own A fused score means the same for every query, and a query that no document answers finds nothing, with a reason.
search.fused-explains 001 A fused hit carries rank, score and terms per layer; scores are 0 to 1 and raw ones are kept.
search.one-index own Every corpus uses the one Index; context search moves onto it behind its contract.
search.keyword-speed 001 Keyword search is measured beside a peer: median and p99, first and later searches, with and without filters.
search.semantic-layer 001 Semantic search finds documents that say the same in other words, by cosine similarity.
embed.shared 003 One embedder serves documents, discovery and cache.
search.quality own Mean nDCG@10 on the public document sets reaches the floors for keyword search; benchmarks print fused beside it.
catalog.indexed-anew own A catalog file of an older version is re-indexed from the definitions in it.
catalog.full-schemas 002 A search result gives the full schemas of the top matches.
catalog.deferred-stay-out 002 The schema of a deferred tool is not in the prompt before it was found.
catalog.activation-threshold 002 Below 10 % of the window all tools are loaded; from 10 % on the compact index is.
catalog.policies own Eager, lazy, share of window, count and schema tokens are policies; the decision has a reason.
catalog.token-table 002 tools tokens prints eager and lazy cost and the saving for the user's own catalog.
catalog.saving 002 On a hundred real MCP tools the first turn costs at least 89 % less than eager loading.
catalog.growth 002 The saving grows with the number of connected tools.
catalog.prompt-assembly 002 The prompt carries either full definitions or the compact index.
catalog.cache-stable 002 The tool section is byte-identical between turns unless the set changed.
catalog.bm25-tool-inputs 004 search_tool_bm25 takes query, trimmed, and limit: default 8, at least 1, bounded only by the corpus.
catalog.bm25-tool-content 004 Its content is compact JSON: query, activated_tools, match_count, total_tools.
catalog.bm25-tool-details 004 Its details carry the ranked matches with scores to six decimals and the cumulative selection.
catalog.bm25-tool-presence 004 The tool exists only when discovery is on and the session supports it.
catalog.bm25-tool-description 004 Its description lists servers with counts and the total.
catalog.bm25-tool-errors 004 Unavailable, disabled, empty query, no letters or numbers and bad limit fail by their exact texts.
catalog.empty-is-no-error 004 An empty corpus or a search without a match is a result that says which of the two it is.
catalog.hook-errors-are-survived 004 A failing discovery hook or cache falls back to an empty corpus or a rebuilt index.
catalog.wire-name 004 The wire name stays search_tool_bm25.
catalog.modes 004 off, mcp-only, all and auto decide what is hidden; the older MCP switch means mcp-only.
catalog.essentials 004 read, bash and edit stay loaded unless overridden; unknown names in the override are ignored.
catalog.internal-tools-hidden 004 Internal tools are never discoverable.
catalog.active-are-excluded 004 Active tools are not found again, before the limit is applied, so repeated searches page on.
catalog.activation-accumulates 004 Activations add up over the session and survive a resume.
catalog.activation-same-turn 004 An activated tool is callable before the next model call of the same turn.
catalog.activation-scopes own Activation is per turn, session or persistent; a schema budget evicts the oldest.
catalog.renderer 004 The terminal shows a status line, five collapsed matches, widths 72 and 96, scores to three decimals.
catalog.renderer-fallback 004 Without details the renderer shows the text as a warning.
catalog.signatures own search_tools gives compact signatures; describe_tool and a failed call give the full schema.
catalog.miss-says-what-exists own A miss lists servers with counts, and the pending, failed and empty ones.
catalog.provider-forms 002 Results are spelt for our JSON, the functions block, Anthropic, OpenAI and plain schemas.
catalog.anthropic-tool-types 002 Anthropic's regex and BM25 search tool types are honoured with their limits and error codes.
catalog.peer-adapters own FastMCP, pydantic-ai and LangChain can use our ranking.
catalog.always-loaded own Servers and single tools can be kept loaded in every mode.
catalog.deferral-brings-its-search own Wherever a tool is deferred, a tool that finds it is loaded.
catalog.mode-is-frozen own The effective mode stays for the session; auto may defer more at the start of a turn, never less.
catalog.children-inherit own A child session begins with its parent's rules, mode and active tools, and then goes its own way.
catalog.idle-calls-are-free own A call that activates nothing does not read the catalog, however large it is.
catalog.sessions-are-thread-safe own Threads may activate, search and read one session at once.
catalog.persistent-activation-is-safe own What is active for good survives two writers, and a damaged file is refused and kept.
catalog.answers-cannot-be-forged own Names and descriptions cannot close a block, forge another or break a line of an answer.
catalog.index-keeps-its-budget own The compact index shrinks to its budget: descriptions, then names, then servers with counts.
catalog.deltas own Added and removed tools are noted below the index, which stays byte-identical until it is refreshed.
catalog.ledger own Eager cost, index, searches, schemas, retries, break-even and the stable prefix are accounted for.
catalog.estimate-states-its-error own Tokens are counted by a stated estimate or by a tokenizer that the user has.

cache.get-or-compute 003 get_or_compute answers from a similar question or computes, and says which.
cache.threshold 003 Only similarity of at least the threshold is a hit: 0.85 by default where meaning is compared, a little less with a clear lead.
cache.max-entries 003 Beyond 1,000 entries, or the given number, the least recently used goes.
cache.ttl 003 An entry older than 24 hours, or the given time, is not served.
cache.persistence 003 on_persist, initial entries and automatic persistence decouple the cache from its storage.
cache.operations 003 lookup, store, stats, clear, clear_expired, persist and close.
cache.exact-without-embedding own An equal question hits without embedding; without an embedder similarity is lexical.
cache.guards own Numbers, negations, names and quotations must agree.
cache.details own Questions whose paths, addresses, code, versions, units, dates or comparisons differ never share an answer, however similar their vectors are.
cache.margin own A hit must also lead the runner-up, the more the less similar it is, and says why it hit.
cache.scope-never-crosses own No hit crosses model, prompt, tools, user, filter or index generation.
cache.invalidation own An answer that cites a changed document is not served.
cache.single-flight own Concurrent misses of one question compute once; failures are not cached.
cache.calibrate own calibrate proposes a caution from labelled pairs.
cache.quality own Most paraphrases hit; by meaning and by words, at each size, wrong hits are about a quarter of a plain threshold's.
cache.lookup-is-exact own Every similar question is found, with numpy and without, after any changes.
cache.bad-vectors own A vector without a direction, or an embedder that fails, never hits and never costs a caller the answer.
cache.bad-inputs own Every bad input that is known for a cache ends in no hit, a clear answer or a bound.

relations.dag 003 Nodes with several parents are added, updated, removed and read as copies.
relations.no-cycles 003 A cycle, a duplicate id or an unknown parent is refused with its exact text.
relations.traversal 003 Parents, children, ancestors, descendants, roots and leaves.
relations.by-type-and-status 003 Nodes are found by edge type and by status.
relations.to-context 003 to_context prints an indented plan with statuses, with parents on request.
relations.persistence 003 on_persist, initial nodes and automatic persistence; hydration is validated.
relations.journal own The journal survives a kill anywhere and two processes.
relations.ready own Ready steps are known at once, and each other step has its reason.
relations.deep own A chain of 10,000 neither overflows nor is quadratic.
relations.tools own plan_add, plan_update, plan_ready and plan_show are tools and commands.
relations.acp own Steps become the entries of an ACP plan, with priority and status.
relations.order own Every node comes after those that it depends on, and the critical path is the longest chain that is not done.
project.pluggable-storage 003 Modules without a database take callbacks and do not dictate where data lives.

rules.root-always 003 The root AGENTS.md is always loaded.
rules.references-on-match 003 Documents linked from AGENTS.md files are indexed and loaded on a match.
rules.for-path 003 rules_for_path gives every AGENTS.md from the root to the file's directory, for any form of path.
rules.override-and-fallback own AGENTS.override.md is preferred; fallback names are configurable.
rules.ignored-directories own Ignored and vendored directories have no rules.
rules.budget own The byte budget is spent nearest first, printed root first, with a note of what was cut.
rules.on-touch own The first touch of a directory yields its nested rules, once.
rules.check own Missing and escaping links are reported.
rules.search-tools own search_rules and rules_for_path are tools and commands.
rules.warm-start 003 The rules index is kept by path and only changed files are read again.
notes.write 000 The agent writes a note for its future; it is searchable in the same session.
notes.same-name-corrects own A note of the same name replaces the old one; a note can be deleted.
notes.form own A note has name, description, type, times and source; the body is at most 4 KiB.
notes.never-override 000 A note is marked as agent-written wherever it is shown and never overrides project context.
notes.never-context own Notes are never read as context, rules or skills, whatever the configuration and links say.
notes.index-is-derived own The index file is derived and never read back.
notes.atomic own Two agents writing at once lose nothing.
search.everything own One search covers context, rules, skills, notes and documents, labelled by kind.
search.progressive 003 Content is loaded on demand, by intent or by place.

skills.scan 003 Skills are found in several roots; the project comes before the user; collisions are warned of.
skills.validate own validate gives the verdicts of the specification; loading is lenient and warns.
skills.search 003 Skills are found by name, description, metadata, body and linked references.
skills.hybrid 003 Skill search uses meaning where there is an embedder and words otherwise.
skills.search-references 003 References linked from a skill are searchable with their similarity.
skills.reference-content 003 A reference's content is loaded only on request, whole or by section.
skills.catalog-budget own The catalog keeps to its budget, shortening descriptions before dropping any, and says so.
skills.scripts own Scripts are listed with a description and qualified name, and never run.
skills.tools own search_skills, read_skill and read_skill_reference are tools; the prompt block is escaped.
skills.warm-start 003 Unchanged skills are not read or embedded again across processes; deleted ones vanish.
skills.confined own A reference that leaves its skill, loops or names a system file is refused.
skills.quality own Of real tasks, the right skill is among the first five more often than by names and descriptions alone.
skills.cli own skills list, search, read, validate and catalog work with --root and --json.

lexical.fields-of-metadata own A ranking may use fields of the documents' metadata, and all stores rank them alike.

catalog.register 003 A tool is registered with name, description, parameters and source, alone or in a batch.
catalog.sources 002 Built-in, MCP, skill and plugin tools share one index, each with its source.
catalog.late-arrivals own Added, replaced and removed tools are seen by the next search.
catalog.clear-source own All tools of one source can be removed at once.
catalog.persistent 003 The catalog is kept in a file and opens warm.
catalog.hybrid 003 Tools are found by name, description or meaning; without an embedder by words.
catalog.hybrid-score-honest 003 Fused scores are normalised to 0 to 1 and ranked the right way round.
catalog.seed-profile 004 The original weights (6, 4, 4, 2, 2, 1) and BM25+ give the published golden numbers.
catalog.summary-fallback 004 The summary is the first 200 characters of the description where none is given.
catalog.ties-by-name 004 Equal scores are ordered by tool name.
catalog.named-is-first own An exact, leaf, re-spelt or slightly misspelt name ranks first in every catalog.
catalog.enum-and-argument-words own Argument names, descriptions and enum values are searchable.
catalog.nothing-fits own A query that fits no tool returns none; the false-positive rate is published.
catalog.quality own R@5 on the public tool sets reaches the floors, with and without an embedder.
catalog.no-manipulation own Keyword stuffing and praise in a description do not win.
catalog.query-select 002 select:A,B fetches tools by name in order; unknown names are reported.
catalog.query-keywords 002 Plain words rank tools by relevance.
catalog.query-required 002 +word requires the word in the name and ranks by the rest.
catalog.query-server own server:NAME narrows to one server.
catalog.query-regex own re:PATTERN matches names safely within its length limit.
catalog.sentences own No sign in a request makes a search fail or come back empty: what names nothing is no operator.
catalog.hostile-metadata own Equal names, huge descriptions and cyclic or deep schemas are survived; no name changes server.
catalog.four-forms own A catalog file is a tools/list result of MCP, an array of OpenAI or Anthropic, or ours.
catalog.compact-signature own A tool's arguments fit into one printable line, those it needs first, with enum values.
catalog.cli-search own tools list, search and describe work on catalog files with --json.

formats.functiongemma 003 Tools are declared in FunctionGemma's trained token form, byte-equal.
formats.functiongemma-parse 003 A model's call is parsed to name and arguments, several, nested or cut off.
formats.relations 003 Relations are printed for context with status and parents on request.
formats.openai own Tools and calls go to and from OpenAI's two forms.
formats.anthropic own Tools and calls go to and from Anthropic's form.
formats.round-trip own What is formatted parses back to the same call.

actions.read-file 003 read gives content, existence and line count, whole or by range, within a cap.
actions.write-file 003 write is atomic, keeps mode and line ends, and makes parents on request.
actions.edit-file 003 edit replaces one unique literal match, or says which lines match; replace_all replaces every one.
actions.edits-at-once own Of several edits of a file at once none is lost.
actions.list-and-stat own Directories are listed and files described.
actions.plain-functions 003 Underneath each action is a plain function that needs no agent.
actions.both-spellings 003 Both spellings of the arguments and the superset of result fields are supported.
actions.glob 003 Files are found by pattern, with ignore rules and a deterministic order.
actions.grep-tells-what-it-could-not-read own A search in files counts those that it could not read and names the first, with reasons.
actions.grep 003 Contents are searched by pattern, type and glob with context lines and a global cap.
actions.pattern-is-no-option own A pattern or path that starts with a dash is never an option.
actions.git-read-only 000 git runs only reading subcommands with allowed arguments.
actions.git-runs-nothing-planted own Nothing planted in a repository's configuration, attributes or hooks runs.
actions.closed-in-git own What is closed in the workspace is closed to git too, by every name and in the past.
actions.are-tools 000 Every action is a tool of the registry, capped and error-wrapped like the others.
actions.offered-on-request own File tools are offered only if the user enables them, which a clone cannot do.
actions.run-command own run TOOL JSON calls any registered tool and prints its envelope.
actions.end-with-the-command own Whoever ends run TOOL or cancels a call ends what the tool has started.
actions.end-with-the-door own Whoever ends a server, by a signal or by closing its input, ends what its tools have started.
actions.confined own No path, symlink or race leaves the workspace; denied files stay closed.

models.contract own Every model streams events by one contract; a scripted one needs no network.
models.http own Anthropic and OpenAI-compatible endpoints are spoken over plain HTTP with retries and usage.
models.local 003 A local GGUF model can call tools in process.
models.not-configured own Without a model the agent says exactly how to set one.

agent.loop 000 The loop asks, dispatches all calls of the turn in parallel, appends results and stops on an answer.
agent.iteration-budget 000 The loop stops at its iteration budget and says so.
agent.stop-reasons own Every stop reason is handled; token budget, cancellation and repeated calls stop the loop.
agent.knows-no-tool 000 The loop does not change when a tool is added.
agent.prompt-order 000 Core prompt, pinned context, manifest, rules, skills, notes and tools, byte-stable.
agent.operator-lines 000 The operator sees pinned files with sizes, the searchable count and each call with its outcome.
agent.cites-its-source 000 The .env dialogue searches once and cites file and section.
agent.nested-rules 003 Rules of a directory come with the first result that touches it.
agent.tool-search-live 004 A tool found in a turn is callable in that turn.
agent.approval own A policy per tool allows, asks or denies, through whatever door is there.
agent.sub-agents own Child loops inherit the policy with their own budget and tools.
agent.traces own A trace replays deterministically.
agent.context-report own A report says what each part of the prompt costs.
agent.cli own agent GOAL runs the loop, interactively without a goal.

actions.shell 003 A command runs in a directory and gives stdout, stderr, exit code and duration.
actions.shell-timeout 003 After 30 s, or the given time, the whole process group is killed.
actions.shell-environment own Secrets are scrubbed from the environment of a command.
actions.shell-output own Output beyond the cap keeps head and tail and spills the rest into a readable file.
actions.shell-background own Background jobs are listed, read and stopped.
actions.http-get 000 http_get fetches https within size and time caps, as text.
actions.http-no-private-network own Private, loopback, link-local and metadata addresses are refused on every redirect.

sandbox.wraps-the-agent 003 The sandbox is optional and wraps the whole agent process.
sandbox.beside-protected own With Landlock, ordinary files are created and changed beside protected ones, and only those.
sandbox.terminals-and-shared-memory own With Landlock, a command has terminals and shared memory that are its own alone.
sandbox.loopback own Servers on loopback work inside a command that has a network of its own.
sandbox.explains-refusals own A command that was refused a path learns which one it can use instead.
sandbox.exit-codes own A missing program exits with 127 and one that may not be run with 126, in every sandbox.
sandbox.drops-privileges own As root the sandbox becomes another user first, and no capability is left inside.
sandbox.root own In a project of root, commands can work, without capabilities or rights to anything else of root.
sandbox.policy own A policy limits paths, network, memory, CPU, processes and time.
sandbox.sums own Memory and processor time are limited for all processes of a command together.
sandbox.never-silently-open own Where no backend works, commands are refused, and check says why.
sandbox.secrets-unreadable own Secrets are unreadable by default, and protected files stay as they are.
sandbox.same-names own What the tools for files never write, commands do not either, where it is or at a root.
sandbox.same-rules own What the configuration closes to the tools for files, it closes to commands too.
sandbox.tells-what-was-made own The result of a command names the protected files that it created.
sandbox.quarantine own Protected names that a command created are moved away when it has ended, and can be restored.
sandbox.restore own What was moved to quarantine can be brought back, and replaces nothing unasked.
sandbox.domains own Network is off, or limited to the allowed domains.
sandbox.check own sandbox check shows what this machine supports and what is missing for more.
sandbox.run own sandbox run starts any command within the policy and gives its exit code.

actions.on-request-only own Shell and web tools are offered only if the user enables them; a clone's file alone cannot.

agent.telemetry own Runs, requests and calls are spans of OpenTelemetry where its extra is installed.
agent.overhead own The loop's own cost per call is measured beside two other frameworks, in one run.
agent.sibling-isolation own A tool that raises, hangs or floods affects no other call of its turn.

grpc.wire-compatible 001 A client generated from the founding proto works unchanged.
grpc.three-calls 001 KeywordSearch, SemanticSearch and FilterDocuments answer with hits.
grpc.added-calls 001 GetDocument and FusedSearch are added under new numbers.
grpc.same-as-other-doors own The same query gives the same ids, order and scores through every door.
grpc.hides-backends 001 No backend, class name or path shows in contract or errors.
grpc.errors own One table maps errors to statuses with details; an empty result is OK.
grpc.deadlines own Deadlines and cancellation stop the work and leak nothing.
grpc.paging own Paging and ordering follow the AIP conventions.
grpc.security own Loopback by default; TLS, mTLS and bearer tokens; requests in flight and sizes are bounded.
grpc.health-and-reflection own Health per service, reflection and a graceful shutdown.
grpc.writes-are-opt-in own The service that writes is off unless enabled.
grpc.client own A typed client returns the Index's own types.
grpc.observability own Logs, spans and metrics carry request ids and no query text.
grpc.fuzz own No mutated message crashes the server.
grpc.serve-command own onhand serve --grpc answers until a signal, inside of any event loop, and is configured in [grpc].
grpc.workers own onhand serve --grpc --workers N serves one port with N processes: each sees every write at once, a crashed one starts again, and all end with the parent.
grpc.writes own Documents are stored in a stream of batches and deleted; acknowledged writes are durable, and statistics show what is stored.
grpc.generated-code-is-current own The generated code is of the contract as it is, and works with the oldest packages allowed.
grpc.examples own Examples in Python and Node ask a server, and the tests run them.
grpc.reference own A reference page has every service, method, message and field of the contract, with its comment.

mcp.serve 003 serve offers the configured tools, resources and prompts over stdio and HTTP.
mcp.conformance own The official suites pass for both protocol versions: ours, behind the gateway, and as a client.
mcp.resources 000 Context files, documents and skills are resources that can be listed and read.
mcp.malformed-is-answered own Every request with a readable id is answered, and the session lives on.
mcp.answers-never-cross own Concurrent clients with equal ids get their own answers.
mcp.same-list own tools/list is the same bytes for as long as it says that it lasts, before and after any call.
mcp.progress own A long call reports progress, and a cancelled one ends.
mcp.structured own For programs, every tool of ours has an output schema, every answer structured content that fits it and the tool's cap, and no error has any.
mcp.text-for-models own Our tools send text alone and list no output schema, unless JSON is requested by _meta or by the configuration.
mcp.same-neutralisation own The JSON of an answer has the tags of blocks escaped as its text does.
mcp.a-hanging-server-delays-nobody own The first search waits at most 300 ms for servers that are connecting, and an answer names them; a named tool waits for its own server.
mcp.searches-compare-meaning own With an embedder, searches through the gateway compare meaning too; until it is ready they answer by words and say so, and a tool is embedded once.
mcp.apps own The interface of an app keeps the scheme ui in its address, which its tool names and which can be read; models neither find nor call a tool that is only for an interface.
mcp.empty-corpora-cost-nothing own A tool over an empty corpus is not listed until there is something to find, and the tools of an empty project cost at most 900 tokens.
mcp.always-loaded own What we list is marked to be loaded by Claude Code without a search, and so is the entry that `mcp install claude` writes.
mcp.same-json own The JSON of a tool's result over MCP is what the command line prints for the same question.
mcp.annotations own Every tool of ours declares correctly whether it only reads, destroys, may be repeated and reaches other machines.
mcp.skills-extension own Skills are listed with the digest and size of every file, and read as they were listed, others' too.
mcp.http-is-strict own Over HTTP, Host, Origin, type, size and token are checked first, and only this machine needs no token.
mcp.http-workers own onhand serve --http --workers N serves one port with N processes, and a session is found whichever of them receives its requests.
mcp.http-limits own Over HTTP, clients that are silent, slow or open too much are closed and keep no others out.
mcp.http-latency own Over HTTP, no connection that we accept or make waits to send; the latency is measured as a ratio.
mcp.upstream-limits own A response that is too long, too deep or endless costs its caller an error at once, and nobody else.
mcp.install own install writes our entry into a client's file once, keeps all else byte for byte, and what was there beside it.
mcp.real-clients own Installed with our command, we work in Claude Code, Codex, Gemini CLI and opencode: their models receive what we say, and can be allowed to read only.
mcp.bundles own Plugins, an extension, a bundle, a registry entry and links are generated from one description, and the clients' own tools accept them.
mcp.uninstall own uninstall takes our entry out of a client's file and import --move the servers that were taken, and all else stays.
mcp.imports-are-safe own What came with a project or is of another one is used only there, after consent, and never permits anything.
mcp.start-is-measured own The benchmark prints the CPU time to the first answers beside a bare server of the SDK, as a ratio.

mcp.stable-surface own tools/list is byte-identical before and after any search; search, describe and call are the surface.
mcp.one-client-per-server 003 Each configured server has one client, connected in parallel, lazily, with back-off.
mcp.registry 003 Tools, resources and prompts of all servers are discovered together by intent.
mcp.registry-operations 003 Resources are read and subscribed to, prompts fetched, tools executed through the registry.
mcp.in-tool-search 002 Tools of connected servers join the tool index beside the built-in ones.
mcp.names-never-move own Names come from the configuration key and never move to another server.
mcp.dead-upstreams-are-harmless own A dead or hung server never slows the others; its last list is used and marked stale.
mcp.bad-items-cost-themselves own An invalid item of a server's list is left out by itself, and reported by name with the reason.
mcp.faithful own Content, errors, progress, cancellation and metadata pass through unchanged.
mcp.changed-tools-are-blocked own A changed upstream tool is blocked until it is approved, with the difference shown.
mcp.descriptions-are-cleaned own Control and invisible characters never reach a prompt.
text.nothing-hidden own Hidden characters reach no model and no terminal, from any source through any door; a marker replaces them.
text.honest-uses-stay own Hidden characters with an honest use, as in emoji, Persian or a hyphenated word, stay byte for byte.
text.hidden-is-reported own Checks of rules, context, skills and imports name hidden characters with line and column.
mcp.tokens-stay own No client token is passed upstream; HTTP is loopback unless a token guards it.
mcp.output-continues own Capped output comes with a handle that continues it.
mcp.client-files own Servers are imported from, and ours installed into, the known clients' files, with a backup.
mcp.tool-switches own In the server file, users switch tools off, rename them and fix their arguments, and nothing gets around it.
mcp.permissions own Each kind of tool has a call tool that clients can gate; policies allow, ask the user of any client, or deny.
mcp.profiles own A client is served the servers, tools and corpora of its profile, and cannot tell that there are others.
mcp.cli own mcp list, add, remove, import, test, review, approve, reject and call work, and unknown names are explained.
mcp.visible own From a terminal one sees, finds and calls what is behind the gateway, as its clients do and whatever the terminal's width.
mcp.introduction own In a terminal, serve says what it serves, what that costs and how to connect; a client sees nothing of it.
mcp.overhead own Search and call through the gateway add milliseconds at 5,000 tools.

catalog.speed 002 A search adds negligible latency: p50 of a millisecond of CPU at 5,000 tools.

acp.default-adapter 003 ACP is the agent's default door: sessions, prompts, responses over stdio.
acp.sessions own Sessions are new, loaded, listed, resumed and closed, and never touch each other.
acp.cancel own Cancel stops work, sends what is pending and answers cancelled.
acp.permissions own A permission's answer really gates the call.
acp.updates own Plans, tool calls with kinds, locations and diffs are sent as updates.
acp.client-abilities own Files and terminals go through the client where it offers them.
acp.schema own Every message validates against the official schema, both ways.
acp.mcp-servers own Servers given with a session join the gateway for that session.
acp.install own acp install writes the editor's configuration; --sandbox wraps the agent.
acp.not-a-tool-source 003 Another agent is reached through an adapter and is not a source of tools.
"""

LATER = {
    "console and scale-out": """
console.why own The operator sees why something was returned, why not, and what it cost.
store.scale-out own The scale-out store passes the same contract suite as the embedded one.
""",
}


def _read(table: str, later: str = "") -> list[Promise]:
    rows = (line.split(maxsplit=2) for line in table.splitlines() if line.strip())
    return [Promise(id, seed, text, later) for id, seed, text in rows]


PROMISES = [
    *_read(BUILT),
    *(promise for part, table in LATER.items() for promise in _read(table, later=part)),
]
