/** Message type of the chat: the AI SDK's UI message with our metadata. */
import type { UIMessage } from 'ai';

export interface MessageMetadata {
  /** Run that produced the message; undefined for user messages. */
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
  /** Duration of the run. */
  seconds?: number;
  /** Nodes of the thread that this message shows, in order. */
  nodes?: readonly string[];
  /** Node before the first one; null at the start of the thread. */
  parent?: string | null;
  /** Versions of this message: siblings of its first node including itself, oldest first. */
  siblings?: readonly string[];
  feedback?: { up: number; down: number; mine?: 'up' | 'down' | null };
  status?: 'done' | 'partial' | 'streaming' | 'failed';
  /** Why it ended early; displayed, but never sent as history. */
  error?: { code?: string; message: string };
  /** Role that UI messages do not have. */
  role?: 'developer' | 'tool';
  createdAt?: string;
}

/** Data parts by name, open-ended (`data-code-edit`, `data-output`, `data-file`, `data-approval-request`, …). */
export type ChatMessage = UIMessage<MessageMetadata>;
export type ChatPart = ChatMessage['parts'][number];

/** Actions on a message; undefined where unavailable (while streaming, or without a thread). */
export interface MessageActions {
  rate?: (rating: 'up' | 'down' | null, comment?: string) => Promise<void>;
  /** Replace the text with a new version; a user message is answered again. */
  edit?: (text: string) => Promise<void>;
  remove?: () => Promise<void>;
  /** Answer again: the question of an assistant message, or this user message. */
  rerun?: () => Promise<void>;
  show?: (node: string) => Promise<void>;
  /** Create a thread that ends here. */
  fork?: () => Promise<void>;
  /** Add the conversation up to here to a test set. */
  addToTestSet?: () => void;
  /** Continue from here in the playground, where the conversation is not a thread. */
  resume?: () => Promise<void>;
  approve?: (approvalId: string, approved: boolean, reason?: string) => Promise<void>;
}
