import { spawn } from "node:child_process";

const COMMAND = "@COMMAND@";
const TIMEOUT_MS = 5000;

const run = (call) =>
  new Promise((resolve) => {
    let printed = "";
    let child;
    const end = (text) => {
      clearTimeout(timer);
      resolve(text);
    };
    const timer = setTimeout(() => {
      child?.kill("SIGKILL");
      end("");
    }, TIMEOUT_MS);
    try {
      child = spawn("/bin/sh", ["-c", COMMAND], { stdio: ["pipe", "pipe", "ignore"] });
      child.on("error", () => end(""));
      child.on("close", () => end(printed));
      child.stdin.on("error", () => {});
      child.stdout.setEncoding("utf8");
      child.stdout.on("data", (text) => (printed += text));
      child.stdin.end(JSON.stringify(call));
    } catch {
      end("");
    }
  });

const contextIn = (printed) => {
  try {
    return JSON.parse(printed).hookSpecificOutput.additionalContext;
  } catch {
    return "";
  }
};

export const ClaudememDaemon = async ({ directory }) => {
  // Sessions that have had a message in this process.
  const known = new Set();
  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const first = !known.has(sessionID);
      known.add(sessionID);
      const said = parts.filter((part) => part.type === "text" && !part.synthetic);
      const call = { session_id: sessionID, cwd: directory, turn_id: message.id };
      // OpenCode replays what it was told; so even the first message may be one that goes on.
      const printed = await run(
        first
          ? { ...call, hook_event_name: "SessionStart", source: "resume" }
          : {
              ...call,
              hook_event_name: "UserPromptSubmit",
              prompt: said.map((part) => part.text).join("\n"),
            },
      );
      const text = contextIn(printed);
      if (!text) return;
      parts.push({
        // Ids begin with prt, and parts are sorted by them.
        id: `${parts.at(-1)?.id ?? `prt_${message.id}`}claudemem`,
        sessionID,
        messageID: message.id,
        type: "text",
        text,
        synthetic: true,
      });
    },
    event: async ({ event }) => {
      if (event.type !== "session.compacted") return;
      const sessionID = event.properties.sessionID;
      await run({ session_id: sessionID, cwd: directory, hook_event_name: "PreCompact" });
    },
  };
};
