// What two readers of JUnit make of each file named: counts, one JSON object a file.
import { convertJUnitToCTRFReport } from "junit-to-ctrf";
import results from "test-results-parser";

const found = {};
for (const file of process.argv.slice(2)) {
  const ctrf = await convertJUnitToCTRFReport(file, {});
  const parsed = results.parse({ type: "junit", files: [file] });
  const counts = ({ total, passed, failed, errors, skipped }) => ({ total, passed, failed, errors, skipped });
  found[file] = { ctrf: ctrf.results.summary, parser: counts(parsed), suites: parsed.suites.map(counts) };
}
console.log("\n" + JSON.stringify(found));
