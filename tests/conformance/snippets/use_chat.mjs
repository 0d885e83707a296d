import { DefaultChatTransport, readUIMessageStream } from 'ai';

// In a component: const { messages, sendMessage } = useChat({ id: chatId, transport, resume: true });
const api = 'http://localhost:8642/eliza/api/chat';
const chatId = 'chat-1';
const transport = new DefaultChatTransport({ api });

// For the stop button. The stop() of useChat only closes the connection: the run continues, and the answer is stored.
const stop = () => fetch(`${api}/${chatId}/stop`, { method: 'POST' });

// Without React, the same transport and the same messages:

const question = { id: 'u1', role: 'user', parts: [{ type: 'text', text: 'I need a holiday' }] };
const stream = await transport.sendMessages({ chatId, messages: [question], trigger: 'submit-message' });
process.once('SIGINT', stop);

let answer;
for await (const message of readUIMessageStream({ stream })) answer = message;
console.log(answer.parts.filter((part) => part.type === 'text').map((part) => part.text).join(''));
