// What `useChat` shows of a run: its transport and its state without React, in three major versions of the AI SDK.

import * as ai6 from 'ai';
import * as ai5 from 'ai5';
import * as ai7 from 'ai7';
import { answer, told } from './lines.mjs';

const useChat = ({ AbstractChat, DefaultChatTransport }, version) => async (asked, built, { signal, heard }) => {
  class Chat extends AbstractChat {
    show(message) {
      if (message.parts.some((part) => part.type === 'text' && part.text)) heard();
    }
  }
  const state = {
    status: 'ready',
    error: undefined,
    messages: [],
    pushMessage(message) { this.messages = [...this.messages, message]; },
    popMessage() { this.messages = this.messages.slice(0, -1); },
    replaceMessage(index, message) { this.messages = this.messages.with(index, message); chat.show(message); },
    snapshot: (thing) => structuredClone(thing),
  };
  const transport = new DefaultChatTransport({
    api: `${asked.url}/${asked.workflow}/api/chat`,
    headers: { 'x-palaver-ui-version': version },
  });
  let ended;
  const chat = new Chat({ id: asked.chat, state, transport, onFinish: (end) => { ended = end; } });
  signal.addEventListener('abort', () => chat.stop());
  await chat.sendMessage({ text: asked.prompt });
  if (asked.then) await chat.sendMessage({ text: asked.then });
  if (chat.error) built.error = told(chat.error);
  if (chat.lastMessage.role !== 'assistant') return;
  readMessage(chat.lastMessage, built);
  built.finish = ended?.finishReason ?? null;
};

function readMessage({ parts, metadata }, built) {
  for (const part of parts) {
    if (part.type === 'text') built.text.push(part.text);
    if (part.type === 'reasoning') built.reasoning += part.text;
    if (part.type !== 'dynamic-tool') continue;
    built.calls.push({ id: part.toolCallId, name: part.toolName, arguments: part.input });
    if (part.state === 'output-available') built.results.push({ id: part.toolCallId, output: part.output });
    if (part.state === 'output-error') built.results.push({ id: part.toolCallId, output: part.errorText });
  }
  if (metadata?.usage) built.usage = { input: metadata.usage.inputTokens, output: metadata.usage.outputTokens };
}

await answer({ ai5: useChat(ai5, '5'), ai6: useChat(ai6, '6'), ai7: useChat(ai7, '7') });
