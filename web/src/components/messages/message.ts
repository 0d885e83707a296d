/** A message of a chat cell: the AI SDK's UI message, with what our server tells about it. */
import type { UIMessage } from 'ai';

export interface MessageMetadata {
  /** The run that said it; for a person's message none. */
  runId?: string;
  traceId?: string;
  chatId?: string;
  usage?: {
    inputTokens?: number;
    outputTokens?: number;
    totalTokens?: number;
    cachedInputTokens?: number;
    reasoningTokens?: number;
  };
  /** How long its run took. */
  seconds?: number;
  /** The nodes of the thread's tree that this message shows, first to last. */
  nodes?: readonly string[];
  /** The node before the first of them, null at the beginning of the thread. */
  parent?: string | null;
  /** The versions of this message (its first node's siblings, itself included), in order of making. */
  siblings?: readonly string[];
  feedback?: { up: number; down: number; mine?: 'up' | 'down' | null };
  status?: 'done' | 'partial' | 'streaming' | 'failed';
  /** Why it ended early. Shown, and never part of the history that is sent. */
  error?: { code?: string; message: string };
  /** A role that UI messages do not have. */
  role?: 'developer' | 'tool';
  createdAt?: string;
}

/** Data parts by name; anything may come (`data-code-edit`, `data-output`, `data-file`, `data-approval-request`, …). */
export type ChatMessage = UIMessage<MessageMetadata>;
export type ChatPart = ChatMessage['parts'][number];

/** What can be done with a message. Absent: not now (while it streams, or where there is no thread). */
export interface MessageActions {
  rate?: (rating: 'up' | 'down' | null, comment?: string) => Promise<void>;
  /** Put `text` in its place (a sibling) and answer it when it is a user's. */
  edit?: (text: string) => Promise<void>;
  remove?: () => Promise<void>;
  /** Answer once more what this message answered (assistant), or answer this message again (user). */
  rerun?: () => Promise<void>;
  /** Show another version. */
  show?: (node: string) => Promise<void>;
  /** A new thread that ends here. */
  fork?: () => Promise<void>;
  /** Keep the conversation up to here as a case of a test set. */
  keep?: () => void;
  /** Go on from here in the playground: what is shown is not a thread. */
  resume?: () => Promise<void>;
  approve?: (approvalId: string, approved: boolean, reason?: string) => Promise<void>;
}
