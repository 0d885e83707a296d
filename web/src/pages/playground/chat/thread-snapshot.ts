/** The current state of a thread: end of a branch, running run, last failure. */
import { ApiError, api } from '@/api/client';
import type { Node, Run, Thread } from '@/api/types';
import type { ChatMessage } from '@/components/messages/message';
import { UNSTORED, messagesOf } from '@/components/messages/nodes';
import { serverPath } from '@/lib/server-path';

/** Nodes of the first page, and of each older page. */
const INITIAL_NODES = 60;
const NODES_PER_PAGE = 20;

export interface ThreadSnapshot {
  thread: Thread;
  /** Finished nodes, oldest first. */
  nodes: Node[];
  /** The run that answers the last node. */
  speaking: { since: number | null } | null;
  /** Failed run that answered the last node, and its output if any. */
  failed: { error: { message: string; code?: string }; message: ChatMessage | null } | null;
}

/** `at`: end of the branch; null for the thread's head. */
export async function fetchSnapshot(id: string, at: string | null): Promise<ThreadSnapshot> {
  const [thread, page] = await Promise.all([
    api('get', '/api/threads/{thread}', { path: { thread: id } }),
    fetchBranch(id, at ?? 'head', INITIAL_NODES),
  ]);
  const nodes = page.filter((node) => node.status !== 'streaming');
  const end = nodes.at(-1);
  const run = thread.run ? await findRunningRun(thread.run) : null;
  // A run that is too new to be found answers the head, like nearly all.
  const speaks = thread.run !== null && (run ? run.answers === (end?.id ?? null) : at === null);
  return {
    thread,
    nodes,
    speaking: speaks ? { since: run ? Date.parse(run.created_at) : null } : null,
    failed: !speaks && end?.role === 'user' ? await fetchFailure(id, end.id) : null,
  };
}

/** A page of a branch that ends at this node. */
export async function fetchBranch(thread: string, at: string, limit = NODES_PER_PAGE): Promise<Node[]> {
  return (await api('get', '/api/threads/{thread}/messages', { path: { thread }, query: { at, limit } })).data;
}

/** Cancel the run of a thread, if any; resolves once its end is stored. */
export async function cancelRun(workflow: string, thread: string): Promise<void> {
  // If this fails, the next read of the thread shows it.
  await fetch(serverPath(`/${encodeURIComponent(workflow)}/api/chat/${thread}/stop`), { method: 'POST' }).catch(
    () => {},
  );
}

async function findRunningRun(run: string): Promise<Run | null> {
  try {
    return await api('get', '/api/runs/{run}', { path: { run } });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Output of a failed run is not part of the branch. */
async function fetchFailure(thread: string, question: string): Promise<ThreadSnapshot['failed']> {
  const [last] = (await api('get', '/api/runs', { query: { thread, limit: 1 } })).data;
  if (last?.answers !== question || last.status !== 'failed') return null;
  const run = await api('get', '/api/runs/{run}', { path: { run: last.id }, query: { include: 'reply' } });
  const code = run.error?.['code'];
  const error = {
    message: String(run.error?.['message'] ?? 'The run failed.'),
    ...(typeof code === 'string' ? { code } : {}),
  };
  const toFailedNode = (message: Pick<Node, 'role' | 'parts'> & { id?: string | null }, place: number): Node => ({
    id: message.id ?? `${run.id}.${place}`,
    parent: question,
    role: message.role,
    parts: message.parts,
    name: null,
    metadata: {},
    origin: 'run',
    run: run.id,
    status: 'failed',
    ...UNSTORED,
    created_at: run.created_at,
  });
  const said = (run.reply?.messages ?? []).map(toFailedNode);
  const [shown] = messagesOf(said);
  return {
    error,
    message: shown?.parts.length ? { ...shown, metadata: { runId: run.id, status: 'failed', error } } : null,
  };
}
