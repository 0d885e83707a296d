import { DefaultChatTransport, readUIMessageStream } from 'ai';

// In a component: useChat({ transport }). Without React, the same transport and the same messages:
const transport = new DefaultChatTransport({ api: 'http://localhost:8642/eliza/api/chat' });

const question = { id: 'u1', role: 'user', parts: [{ type: 'text', text: 'I need a holiday' }] };
const stream = await transport.sendMessages({ chatId: 'chat-1', messages: [question], trigger: 'submit-message' });

let answer;
for await (const message of readUIMessageStream({ stream })) answer = message;
console.log(answer.parts.filter((part) => part.type === 'text').map((part) => part.text).join(''));
